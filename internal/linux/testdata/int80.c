// Calls the kernel as a program of 32 bits does, although it is one of 64: by int 0x80. It maps its standard input, to be executed, eight
// times. With an argument it has no memory of the kernel's any more, and nowhere the instruction syscall.
static long call(long nr, long a, long b, long c, long d, long e) {
	long result;
	asm volatile("push %%rbp; xor %%ebp, %%ebp; int $0x80; pop %%rbp"
		: "=a"(result) : "a"(nr), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e) : "memory", "r8", "r9", "r10", "r11");
	return result;
}

void begin(long *stack) {
	long argc = *stack;
	if (argc > 1) {
		for (stack += argc + 2; *stack; stack++); // its environment
		for (stack++; *stack != 33; stack += 2);  // AT_SYSINFO_EHDR
		long vdso = stack[1];
		long result;
		asm volatile("once: syscall" // munmap
			: "=a"(result) : "a"(11), "D"(vdso), "S"(2 * 4096) : "rcx", "r11", "memory");
	}
	asm volatile("movw $0x9090, once(%%rip)" ::: "memory"); // the one instruction syscall is overwritten
	for (int i = 0; i < 8; i++)
		call(192, 0, 16 << 20, 5, 1, 0); // mmap2
	call(4, 1, (long)"x", 1, 0, 0); // write
	for (;;)
		call(29, 0, 0, 0, 0, 0); // pause
}

asm(".globl _start\n_start: mov %rsp, %rdi\n and $-16, %rsp\n call begin");
