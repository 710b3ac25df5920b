// The rules by which the machine and the checker judge a kernel. Ids never change; new rules go to
// the end.
#include <algorithm>
#include <cctype>
#include <string>

#include "common/emulator/report.h"

namespace emulator {

namespace {

constexpr bool strict = true;

const std::vector<Rule> catalogue = {
    {"E01", "deadlock",
     R"(Threads wait for something that no thread and no copy can bring any more.

The report lists who waits where. Start with the mbarriers: for each it says which phase is in
progress, and how many arrivals and bytes that phase still lacks. Missing arrivals: compare the
count given to mbarrier.init with who really arrives (one elected lane, 32, 128?). Missing
bytes: expect_tx announced more than the copies bring; TMA counts whole boxes, also where they
hang over the edge of the tensor. A phase that is complete although somebody waits for it: the
waiter's parity is wrong, or it came a lap too late.

On a GPU such a kernel hangs until somebody kills it.)",
     "PTX ISA 9.7.13.15 (mbarrier), 9.7.13.1 (barrier), 9.7.19.5 (setmaxnreg)", !strict},

    {"E02", "livelock",
     R"(Threads read memory again and again, waiting for a value that no thread will write any more.

Either the flag is never set (count the arrivals that the waiter expects), or the CTA that would
set it has not started: a grid larger than the GPU runs in portions, and a CTA that waits keeps
its place. A thread may wait only for work that is certainly running or done: of CTAs with
smaller numbers, or of a grid that is resident as a whole. Counters that are left over from the
last launch are the other usual reason: reset them, or let the kernel that uses them do it.)",
     "CUDA C++ Programming Guide, thread hierarchy (CTAs are scheduled in any order)", !strict},

    {"E03", "barrier-not-initialized",
     R"(An mbarrier is used before mbarrier.init has run on it, or with nothing that makes the user
wait for the init.

An mbarrier is ordinary memory until it is initialized. One thread does that; everybody else
must be ordered behind it before the first arrive, wait or copy. That the init "comes first" in
time is luck.

The cure: after the init, a __syncthreads() (bar.sync) of the whole CTA. If threads or copies of
other CTAs of the cluster use the barrier, a barrier of the cluster (barrier.cluster.arrive and
.wait).)",
     "PTX ISA 9.7.13.15.9 (mbarrier.init)", !strict},

    {"E04", "missing-init-fence",
     R"(A copy reports to an mbarrier whose initialization has not been shown to the async proxy.

mbarrier.init is a store through the generic proxy. The copy engine looks at the barrier through
the async proxy, and the other CTAs of a cluster look at it from another SM. The thread that
initializes must therefore execute

    fence.mbarrier_init.release.cluster;

after its mbarrier.init instructions and before the barrier of the CTA or cluster that lets the
others go on. fence.proxy.async serves as well, within the CTA.)",
     "PTX ISA 9.7.13.4 (fence.mbarrier_init)", !strict},

    {"E05", "mbarrier-count",
     R"(mbarrier.init was given a number of arrivals that is not between 1 and 2^20 - 1.)",
     "PTX ISA 9.7.13.15.9 (mbarrier.init)", !strict},

    {"E06", "over-arrival",
     R"(More arrivals come in one phase of a barrier than it was initialized for.

The count of mbarrier.init is the number of arrivals of a phase: 1 if one elected lane arrives,
32 or 128 if every thread of a warp or warpgroup does. An arrival beyond it is undefined; it may
count towards the next phase, and then everything behind is off by one.

The usual reason: an arrive, or a whole producer branch, is executed by all 32 lanes where one
elected lane was meant. Write the count next to the code that arrives.)",
     "PTX ISA 9.7.13.15.13 (mbarrier.arrive), 9.7.13.3 (barrier.cluster)", !strict},

    {"E07", "phase-aba",
     R"(A thread waits for a phase of an mbarrier by parity, and could mistake it for another phase.

The parity tells apart only a phase and the one before it: phase 3 and phase 5 look the same. A
wait is safe only if the barrier can be in no other phase than the awaited one or the next when
the thread looks. That needs two things.

Not early: the waiter knows that the phase before is complete (it has waited for it, or for
somebody who has). Otherwise it may look while the barrier is two phases back, and pass at once.

Not late: the phase after can't complete before the waiter has looked. The waiter must be among
those whose arrivals complete it, or ordered before one of them. Otherwise it may look when the
barrier has moved on twice, and wait for a phase that comes next lap, or never.

In a ring of stages this holds by itself if the EMPTY barriers count every consumer, every
consumer waits for every phase in turn, and the parity flips each time the ring wraps around. A
count that is too small, a missing flip, or an `if` around a wait breaks it, often without a
wrong result for days.)",
     "PTX ISA 9.7.13.15.16 (mbarrier.test_wait, .parity)", !strict},

    {"E08", "unbalanced-expect-tx",
     R"(The bytes that expect_tx announced for an mbarrier and the bytes that copies brought do not
agree.

A phase completes when no arrival is pending and the byte count is zero: announced bytes add,
landed bytes subtract. Too many announced: the phase never completes. Too few: the count goes
negative, which also never completes, or the phase completes while a copy is still on its way,
and the rest counts against the next phase.

A copy with a tensor map always brings its whole box, also the elements outside the tensor. With
multicast each destination's barrier receives the bytes that land in its own CTA, whoever issued
the copy. Announce exactly that, once a phase, before or after issuing the copies.)",
     "PTX ISA 9.7.13.15.5 (tracking asynchronous operations)", !strict},

    {"E09", "expect-tx-range",
     R"(The byte count of an mbarrier leaves its range, -(2^20 - 1) to 2^20 - 1.

A stage of a pipeline is far smaller than a megabyte, so this is nearly always a size in
elements or bits where bytes are meant, or an expect_tx in every thread instead of one.)",
     "PTX ISA 9.7.13.15.1 (size and range of the mbarrier)", !strict},

    {"E10", "barrier-overwritten",
     R"(The bytes of a live mbarrier are used as ordinary memory, or initialized a second time.

The content of an mbarrier is opaque; only mbarrier instructions may touch it. Before its memory
serves another purpose, or is initialized anew, mbarrier.inval must run, when nobody uses it any
more. Check the layout of shared memory: does a tile overlap the barriers?)",
     "PTX ISA 9.7.13.15.10 (mbarrier.inval)", !strict},

    {"E11", "read-before-landed",
     R"(Bytes are read that a copy (TMA) writes, without having waited for its mbarrier.

A copy runs on its own. That it is done is told by one thing only: the phase of the mbarrier to
which it reports. Every warp that reads the bytes must have waited for that phase (try_wait
returned true), or be ordered behind a thread that has. wgmma counts as a read by each of its
four warps.

If the data were right in this run, they were so by luck. Look for: a missing wait; a wait with
the parity of the last lap, which passes at once; an expect_tx that announces fewer bytes than
the copies bring, so that the phase completes early; a wait that says .relaxed, which tells that
the phase is complete but shows nothing of what the copies wrote (without a word it acquires).)",
     "PTX ISA 9.7.9.25.1 (completion of asynchronous copies), 9.7.13.15.16 (mbarrier.test_wait)",
     !strict},

    {"E12", "write-while-landing",
     R"(Bytes are written while a copy (TMA) may still be writing them.

The writer is not ordered behind the phase of the mbarrier to which the copy reports. In a ring:
the producer refills a stage that nobody has waited for, or a consumer releases a stage without
having waited until it was full; or two threads issue the same copy.)",
     "PTX ISA 9.7.9.25.1 (completion of asynchronous copies)", !strict},

    {"E13", "overwritten-while-wgmma-reads",
     R"(Shared memory is overwritten that a wgmma may still be reading.

wgmma.mma_async returns at once and reads its tiles later. They may be reused when
wgmma.wait_group has waited for the group of that wgmma, and the writer knows: the consumer
waits, then arrives at the EMPTY barrier of the stage, and the producer waits for that barrier
before it refills the stage.

wait_group N leaves the N latest groups running. Whoever keeps one in flight must release the
stage before, not the current one. An EMPTY barrier whose count is too small, or an arrive
before the wait, lets the producer go on too early. The result is wrong only when it happens to
be fast.)",
     "PTX ISA 9.7.15.7.3 (wgmma.wait_group)", !strict},

    {"E14", "overwritten-while-store-reads",
     R"(Shared memory is overwritten that a bulk store, or a copy to another CTA, may still be
reading.

cp.async.bulk from shared to global memory reads its source later. The thread that issued it
must commit the group (cp.async.bulk.commit_group), wait (cp.async.bulk.wait_group.read N), and
then tell the writers, say with a barrier. Bulk groups belong to the thread: a wait in another
one waits for nothing.)",
     "PTX ISA 9.7.9.25 (cp.async.bulk.wait_group)", !strict},

    {"E15", "missing-proxy-fence",
     R"(The async proxy reads bytes that threads wrote with ordinary stores, without a
fence.proxy.async in between.

wgmma and the copy engine reach memory on another way (proxy) than ld and st. A barrier orders
threads with each other; it does not make their stores visible on that other way. Each thread
that has written executes fence.proxy.async (or .shared::cta) after its last store and before
the barrier, then one thread issues the copy, or all issue the wgmma:

    st.shared ...            every writer
    fence.proxy.async        every writer
    bar.sync                 all
    cp.async.bulk / wgmma

The data are nearly always right without it, on an idle GPU. The completion of a copy or a wgmma
is itself such a fence in the other direction.)",
     "PTX ISA 8.6 (proxies), 9.7.13.4 (fence.proxy.async), 9.7.15.4 (wgmma and the async proxy)",
     !strict},

    {"E16", "unwritten-read",
     R"(Shared memory is read where nothing has been written since the CTA began.

Its content is whatever the last CTA on that SM left behind. Wrong offset, a tile that is filled
only in part (the tail of K?), or a copy that went to another place?)",
     "PTX ISA 5.1.5 (shared state space)", !strict},

    {"E17", "accumulator-in-flight",
     R"(An instruction accesses a register that a wgmma may still be using.

The accumulators (and the registers of A, if it is not in shared memory) belong to the tensor
core from the wgmma.mma_async on until wgmma.wait_group has waited for its group. Reading or
writing them before is undefined. ptxas usually notices and inserts waits, which is right but
slow; its warning says that wgmma was serialized.

Wait first; and make the compiler keep the order: the accumulators must be operands ("+f") of
the asm statement that waits, or the compiler may move their use in front of it.)",
     "PTX ISA 9.7.15.7.3 (wgmma.wait_group)", !strict},

    {"E18", "missing-wgmma-fence",
     R"(A wgmma uses registers that another instruction has accessed, without a wgmma.fence in
between.

wgmma.fence orders earlier accesses to registers before what wgmma does with them. Every warp of
the warpgroup needs one before its first wgmma, and again whenever accumulators or registers of
A have been read or written by anything else, such as setting them to zero, scaling, or loading
the next A. Between wgmmas of the same shape that add to the same accumulators none is needed.)",
     "PTX ISA 9.7.15.7.1 (wgmma.fence)", !strict},

    {"E19", "bad-descriptor",
     R"(A wgmma's operands do not fit: a descriptor points outside shared memory, or the lanes or
warps of the warpgroup do not agree on descriptors or scale-d.

A descriptor holds the address, the leading and the stride offset divided by 16, and the swizzle
mode. Both descriptors must be the same in all 128 threads: compute them from values that are
uniform.)",
     "PTX ISA 9.7.15.5.1 (matrix descriptor)", !strict},

    {"E20", "shared-race",
     R"(Two threads, or a thread and a copy or wgmma, access the same bytes of shared memory, at
least one writes, and nothing orders the two.

Which comes first is luck. Orders are made by bar.sync between threads of a CTA, by an mbarrier
(arrive releases, wait acquires) between roles, by __syncwarp() between lanes of a warp, and by
nothing else: that lanes of a warp execute the same code does not order them, and neither does
an elected lane's arrive speak for the other 31 unless __syncwarp() comes before it.)",
     "PTX ISA 8.9 (ordering of memory operations)", !strict},

    {"E21", "global-race",
     R"(Global memory is accessed that another thread or copy writes, and nothing orders the two.

Within a CTA a barrier orders. Between CTAs a flag is needed: the writer releases (its CTA's
barrier first, then one thread's st.release.gpu or red.release.gpu), the reader acquires
(ld.acquire.gpu until the flag is set, then its CTA's barrier). Who writes where others have read
needs one the other way: that they are done. A plain load or store is no flag.)",
     "PTX ISA 8.9 (ordering of memory operations), 8.8 (release and acquire patterns)", !strict},

    {"E22", "insufficient-scope",
     R"(Threads of different CTAs share data in shared memory, and order themselves by an operation
whose scope does not reach from one to the other.

mbarrier.arrive and mbarrier.try_wait have the scope .cta unless they say otherwise, also on a
barrier in another CTA. Such a pair is good enough to hand a buffer back to the copy engine,
since nothing that a thread wrote must become visible. For data that threads write and threads
of another CTA read (distributed shared memory) both sides must say .cluster:

    mbarrier.arrive.release.cluster.shared::cluster.b64
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64

Likewise barrier.cluster.arrive must not be .relaxed there, and atomics need a scope that has
both threads in it.)",
     "PTX ISA 8.5 (scope), 8.7 (morally strong operations)", !strict},

    {"E23", "insufficient-flag",
     R"(Data in global memory are ordered by a flag that is too weak for them to be seen.

A relaxed flag tells that something has happened, not that what came before it is visible; and a
scope of .cta or .cluster does not reach threads outside. What works between CTAs:

    writer:  st data;  (barrier of the CTA)  red.release.gpu flag
             or  st data;  (barrier)  fence.acq_rel.gpu;  red.relaxed.gpu flag
    reader:  ld.acquire.gpu flag until set;  (barrier of the CTA)  ld data
             or  ld.relaxed.gpu flag until set;  fence.acq_rel.gpu;  (barrier)  ld data

A stale value appears once in many thousand launches, if at all.)",
     "PTX ISA 8.8 (release and acquire patterns), 8.5 (scope)", !strict},

    {"E24", "store-not-complete",
     R"(Global memory is accessed that a bulk store has not certainly written yet.

cp.async.bulk.wait_group.read only says that the source has been read. Before the result of a
bulk store is used by anybody in the same kernel, the thread that issued it must wait with
cp.async.bulk.wait_group (without .read), and then release a flag. At the end of a kernel all
its stores are complete by themselves.)",
     "PTX ISA 9.7.9.25 (cp.async.bulk.wait_group)", !strict},

    {"E25", "named-barrier-count",
     R"(The threads that use a named barrier do not agree on how many they are.

All arrivals of one generation of bar.sync and bar.arrive must name the same count, a multiple
of 32 (whole warps count), and exactly so many threads must come. The count includes those that
only arrive (bar.arrive). Barrier ids go from 0 to 15; __syncthreads() is barrier 0 with all
threads of the CTA.)",
     "PTX ISA 9.7.13.1 (bar, barrier)", !strict},

    {"E26", "named-barrier-shared",
     R"(A warp arrives at a named barrier without being ordered behind its previous generation.

If the same id serves two groups of threads, or an arrival without waiting (bar.arrive) runs
ahead, then under another schedule the warp joins the generation before: the wrong warps are let
go, and others wait forever. It is found here even where this schedule happened to keep the
generations apart.

Give each group a barrier id of its own, or make one group wait for the other in between.)",
     "PTX ISA 9.7.13.1 (bar, barrier)", !strict},

    {"E27", "divergent-aligned",
     R"(An instruction that a whole warp (or warpgroup) must execute together is executed by a part
of it.

.aligned means that all threads of the warp execute the same instruction; .sync that those of
the membermask do; wgmma and setmaxnreg need all four warps of a warpgroup. Under a condition
that differs between lanes they are undefined, and on a GPU may hang. Make the condition uniform
(from the warp's number, say), or move the instruction out of the branch.)",
     "PTX ISA 9.7.13.1, 9.7.15 (.sync, .aligned)", !strict},

    {"E28", "exit-in-flight",
     R"(Threads exit while an asynchronous operation of theirs may still be running.

Shared memory ends with its CTA. A load that lands later writes into whatever runs there next; a
bulk store reads garbage; a wgmma reads both. Before a thread exits, it must have waited for its
bulk stores (cp.async.bulk.wait_group.read 0 is enough) and its wgmmas, and for each load some
thread of the destination's CTA must have waited for its mbarrier. A producer must not load
ahead of what is consumed.)",
     "PTX ISA 9.7.9.25 (asynchronous copy), 9.7.15.7.3 (wgmma.wait_group)", !strict},

    {"E29", "exited-target",
     R"(Shared memory or an mbarrier of another CTA is accessed when that CTA may have exited.

Distributed shared memory, remote arrives and multicast work only while the target CTA lives,
and nothing keeps it alive but its own threads. Let all CTAs of a cluster meet before they exit
(barrier.cluster.arrive, .wait), or let each wait until all arrivals that it is owed have come.)",
     "PTX ISA 5.1.5 (shared::cluster), CUDA C++ Programming Guide (distributed shared memory)",
     !strict},

    {"E30", "peer-not-started",
     R"(Shared memory of another CTA of the cluster is accessed before it is certain that this CTA
runs.

The CTAs of a cluster run at the same time, but do not begin at the same time. A barrier of the
cluster must come before the first access to another CTA's memory.)",
     "CUDA C++ Programming Guide (distributed shared memory)", !strict},

    {"E31", "setmaxnreg",
     R"(setmaxnreg asks for registers that there are not, or in the wrong direction.

A CTA gets registers at launch: threads x registers a thread. .dec gives some back to a pool,
.inc takes some and waits until enough are there. The sums must fit: with 384 threads and 168
registers a thread there are 64,512; 128 x 40 + 256 x 232 is exactly that. .inc to less than the
thread has, or .dec to more, is undefined, and the kernel needs launch bounds or ptxas ignores
the instruction.)",
     "PTX ISA 9.7.19.5 (setmaxnreg)", !strict},

    {"E32", "tensor-map-fence",
     R"(A copy uses a tensor map in global memory that was changed, without the fence of the
tensor-map proxy.

The copy engine caches tensor maps. Who changes one publishes it with
tensormap.cp_fenceproxy...release.gpu (or fence.proxy.tensormap::generic.release.gpu); who uses
it, or another thread of its CTA that then tells it by a barrier, executes, after having been told,

    fence.proxy.tensormap::generic.acquire.gpu [map], 128;

and only then the copy. The fence of another CTA does not count: it may run on another SM, with a
cache of its own.)",
     "PTX ISA 9.7.13.4 (fence.proxy.tensormap), 9.7.13.16 (tensormap.cp_fenceproxy)", !strict},

    {"E33", "tensor-map-in-use",
     R"(A tensor map is changed while a copy may still be reading it.

A copy may look at its map until it is complete: loads until their mbarrier says so, stores
until cp.async.bulk.wait_group.read. Wait for both before the map is replaced, or use several
maps in turn.)",
     "PTX ISA 9.7.9.25 (cp.async.bulk.wait_group), 9.7.13.16 (tensormap.cp_fenceproxy)", !strict},

    {"E34", "bad-tensor-map",
     R"(A copy is given something that is not a tensor map, or one that does not fit the
instruction.

A map is 128 bytes, made by cuTensorMapEncodeTiled, passed as a const __grid_constant__
parameter (or copied to global memory as it is); the number of coordinates must be that of its
dimensions.)",
     "PTX ISA 5.5 (tensors, tensor maps)", !strict},

    {"E35", "out-of-bounds",
     R"(An access goes outside every allocation, outside the shared memory of its CTA, or to memory
that may not be written.

On a GPU this is an illegal address, or worse, somebody else's data. Edge tiles are the usual
place: predicate the access, or let TMA clip the box. TMA clips a load on every side; a store or a
reduction it clips where it reaches beyond the end, and stops where it begins before the start.)",
     "PTX ISA 5.1 (state spaces)", !strict},

    {"E36", "misaligned",
     R"(An address is not a multiple of what the instruction needs.

Loads and stores need the size of what they move (16 for v4.f32), mbarriers 8, bulk copies 16
bytes in address and size, TMA destinations 128 bytes, and swizzled tiles 1024, 512 or 256 so
that the pattern starts at its beginning. In a row of its tensor, a TMA box begins at a multiple of
16 bytes.)",
     "PTX ISA 6.4.1 (addresses), 9.7.9.25 (asynchronous copy)", !strict},

    {"E37", "stack-overflow",
     R"(Calls are nested deeper than the stack of a thread allows: recursion without an end?)",
     "PTX ISA 7.1 (calls)", !strict},

    {"E38", "trap", R"(The kernel executed trap: it stopped itself on purpose.)",
     "PTX ISA 9.7.19.4 (trap)", !strict},

    {"E39", "assert",
     R"(A device-side assert failed. The message has the condition and its place.)",
     "CUDA C++ Programming Guide (assertion)", !strict},

    {"E40", "one-warp-waited",
     R"(A tile is overwritten when not all four warps of a warpgroup are known to have waited for
the wgmma that reads it.

A wgmma belongs to the warpgroup, and a wgmma-group is one of the warpgroup, so that the wait of
one warp tells that all is read. CUTLASS relies on it: one thread of the group hands the stage
back. But the ISA says "committed by the executing threads", and nowhere that one warp's wait
covers the others' reads. To be on the safe side let every warp arrive (a count of 4 for each
warpgroup), or meet before the arrive.)",
     "PTX ISA 9.7.15.7.2, 9.7.15.7.3 (wgmma.commit_group, wgmma.wait_group)", strict},

    {"E41", "overwrite-without-proxy-fence",
     R"(A copy overwrites bytes that threads have read or written with ordinary loads and stores,
without a fence.proxy.async in between.

The order is right, only the proxies differ. For a store that a copy reads, the fence is a must
(E15). For an overwrite the ISA asks for a fence between any two accesses through different
proxies, and CUTLASS has one before it gives back a buffer that threads have read; many correct
programs do without it.)",
     "PTX ISA 8.6 (proxies)", strict},

    {"E42", "store-of-unwritten",
     R"(A bulk store reads shared memory where nothing has been written.

Harmless where the box hangs over the edge of the tensor, since nothing is stored there.
Elsewhere garbage goes to global memory.)",
     "PTX ISA 9.7.9.25 (asynchronous copy)", strict},

    {"E43", "lanes-left-behind",
     R"(Lanes of a warp wait for a phase of an mbarrier, and only some of them are ordered before
the next phase completes.

If all 32 lanes wait, but one elected lane does what lets the barrier go on, the other lanes
could still be on their way to the wait when the phase after is complete, and miss theirs.
Threads of a warp are independent since Volta. Let only the elected lane wait, or put
__syncwarp() behind the wait.)",
     "PTX ISA 9.7.13.15.16 (mbarrier.test_wait, .parity)", strict},

    {"E44", "relaxed-order",
     R"(A thread relies on another's accesses being over, and has been told so by a relaxed
operation only: it overwrites what the other has read, or exits although the other has accessed
the shared memory of its CTA.

A relaxed arrival (mbarrier.arrive.relaxed, barrier.cluster.arrive.relaxed) says that the thread
has come so far, and nothing of the loads and stores before it: the ISA gives no guarantee that
they have been performed. A late load then sees the new value, or finds the CTA gone. The same
goes for a relaxed wait, and for a scope that does not reach the other thread. In practice a load
whose value has been used is over, but nothing promises it. Let the arrival release and the wait
acquire: they do, unless they say .relaxed.)",
     "PTX ISA 8.8 (release and acquire patterns), 9.7.13.3 (barrier.cluster, .relaxed)", strict},
};

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

}  // namespace

const std::vector<Rule>& rules() {
  return catalogue;
}

const Rule* find_rule(std::string_view id) {
  const std::string wanted = lower(id);
  const auto found = std::find_if(catalogue.begin(), catalogue.end(), [&](const Rule& rule) {
    return rule.name == wanted || lower(rule.id) == wanted;
  });
  return found == catalogue.end() ? nullptr : &*found;
}

}  // namespace emulator
