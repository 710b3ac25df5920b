// Handlers made of a function of one lane: what the ALU instructions have in common.
#pragma once

#include "common/emulator/lanes.h"
#include "common/emulator/program.h"
#include "common/emulator/warp.h"

namespace emulator {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

// `Function` is a type whose call operator takes the sources of a lane and returns its result. It
// runs for all lanes, those that do not execute too, so it must be harmless for any bits.

template <class Function, class D, class A>
EMULATOR_VECTORIZED Flow unary(Warp& warp, const Op& op) {
  const Row<A> a = warp.row<A>(op.a);
  assign_lanes(warp.lanes, warp.row<D>(op.d), [=](int i) { return D(Function{}(a[i])); });
  return Flow::next;
}

template <class Function, class D, class A, class B = A>
EMULATOR_VECTORIZED Flow binary(Warp& warp, const Op& op) {
  const Row<A> a = warp.row<A>(op.a);
  const Row<B> b = warp.row<B>(op.b);
  assign_lanes(warp.lanes, warp.row<D>(op.d), [=](int i) { return D(Function{}(a[i], b[i])); });
  return Flow::next;
}

template <class Function, class D, class A, class B = A, class C = A>
EMULATOR_VECTORIZED Flow ternary(Warp& warp, const Op& op) {
  const Row<A> a = warp.row<A>(op.a);
  const Row<B> b = warp.row<B>(op.b);
  const Row<C> c = warp.row<C>(op.c);
  assign_lanes(warp.lanes, warp.row<D>(op.d),
               [=](int i) { return D(Function{}(a[i], b[i], c[i])); });
  return Flow::next;
}

// The same for functions that are slow, or that only the lanes that execute may call.

template <class Function, class D, class A>
Flow unary_by_lane(Warp& warp, const Op& op) {
  const Row<A> a = warp.row<A>(op.a);
  const Row<D> d = warp.row<D>(op.d);
  for_each_lane(warp.lanes, [&](int i) { d.set(i, D(Function{}(a[i]))); });
  return Flow::next;
}

template <class Function, class D, class A, class B = A>
Flow binary_by_lane(Warp& warp, const Op& op) {
  const Row<A> a = warp.row<A>(op.a);
  const Row<B> b = warp.row<B>(op.b);
  const Row<D> d = warp.row<D>(op.d);
  for_each_lane(warp.lanes, [&](int i) { d.set(i, D(Function{}(a[i], b[i]))); });
  return Flow::next;
}

template <class Function, class D, class A, class B = A, class C = A>
Flow ternary_by_lane(Warp& warp, const Op& op) {
  const Row<A> a = warp.row<A>(op.a);
  const Row<B> b = warp.row<B>(op.b);
  const Row<C> c = warp.row<C>(op.c);
  const Row<D> d = warp.row<D>(op.d);
  for_each_lane(warp.lanes, [&](int i) { d.set(i, D(Function{}(a[i], b[i], c[i]))); });
  return Flow::next;
}

}  // namespace emulator
