// Puts the PTX text of a lesson into its program: the text lies between lesson_ptx and
// lesson_ptx_end, and a null byte ends it. PTX_FILE names the file that ptxas assembled.
        .section .rodata
        .globl lesson_ptx, lesson_ptx_end
lesson_ptx:
        .incbin PTX_FILE
lesson_ptx_end:
        .byte 0
        .section .note.GNU-stack, "", %progbits
