//go:build ignore

// aio tells how many requests of the kernel's asynchronous I/O (libaio) each process has in flight. It is an iterator:
// whoever reads it gets a struct context for each process in its pid namespace, with nothing in flight, and one for each
// of its contexts.
//
// The few kernel types are declared here with the fields that are used; where these are is found out when the program
// is loaded (CO-RE).
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#define KERNEL __attribute__((preserve_access_index))

struct upid {
	int nr;
} KERNEL;
struct pid {
	unsigned int level;
	struct upid numbers[1];
} KERNEL;
struct kioctx_cpu {
	unsigned int reqs_available;
} KERNEL;
typedef struct {
	int counter;
} atomic_t;
struct list_head {
	struct list_head *next;
} KERNEL;
struct kioctx {
	unsigned int nr_events;
	struct kioctx_cpu *cpu; // one for each processor
	atomic_t reqs_available;
	struct list_head active_reqs;
	unsigned int completed_events;
} KERNEL;
struct kioctx_table {
	unsigned int nr;
	struct kioctx *table[];
} KERNEL;
struct mm_struct {
	struct kioctx_table *ioctx_table;
} KERNEL;
struct task_struct {
	int pid, tgid;
	struct pid *thread_pid;
	struct mm_struct *mm;
} KERNEL;
struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
	__u64 session_id, seq_num;
} KERNEL;
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} KERNEL;
struct bpf_array {
	struct bpf_array_aux *aux;
	void *pptrs[];
} KERNEL;

// context is of one context of a process, or says that there is one; pid is what the reader calls that.
struct context {
	__u32 pid;
	__u32 waits; // one of them waits for a descriptor, and that may last
	__s64 in_flight;
};

// A variable for each processor is at an address that differs from the variable's by as much as for every other. For one
// of a map both are to be had.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} here SEC(".maps");

#define most_contexts 4096
#define most_processors 8192

struct sum {
	__u64 cpu, base;
	__s64 available;
};

// address makes a number of a pointer with which the verifier lets nobody count.
static __always_inline __u64 address(void *p)
{
	__u64 n = 0;

	bpf_probe_read_kernel(&n, sizeof(n), &p);
	return n;
}

static long add(__u32 cpu, struct sum *s)
{
	__u32 zero = 0;
	void *at = bpf_map_lookup_percpu_elem(&here, &zero, cpu);
	struct kioctx_cpu *of;

	if (!at)
		return 1; // there are no more
	of = (void *)(s->cpu + address(at) - s->base);
	s->available += BPF_CORE_READ(of, reqs_available);
	return 0;
}

struct walk {
	struct seq_file *seq;
	struct kioctx_table *table;
	__u32 pid;
};

static long tell(__u32 i, struct walk *w)
{
	struct kioctx_table *table = w->table;
	struct bpf_array *array;
	struct kioctx *ctx = NULL;
	struct sum s = {};
	struct context c = {};

	if (i >= BPF_CORE_READ(table, nr))
		return 1;
	bpf_core_read(&ctx, sizeof(ctx), (void *)&table->table[0] + (__u64)i * sizeof(ctx));
	if (!ctx)
		return 0;
	// In this order: what is answered meanwhile is counted as in flight, at worst.
	s.cpu = (__u64)BPF_CORE_READ(ctx, cpu);
	array = (void *)address(&here);
	s.base = (__u64)BPF_CORE_READ(array, pptrs[0]);
	s.available = BPF_CORE_READ(ctx, reqs_available.counter);
	bpf_loop(most_processors, add, &s, 0);
	c.pid = w->pid;
	c.waits = BPF_CORE_READ(ctx, active_reqs.next) != &ctx->active_reqs;
	c.in_flight = (__s64)BPF_CORE_READ(ctx, nr_events) - 1 - s.available - BPF_CORE_READ(ctx, completed_events);
	bpf_seq_write(w->seq, &c, sizeof(c));
	return 0;
}

SEC("iter/task")
int contexts(struct bpf_iter__task *it)
{
	struct task_struct *task = it->task, *reader = (void *)bpf_get_current_task();
	struct context none = {};
	struct walk w = {};
	struct pid *pid;
	__u64 level;

	if (!task || BPF_CORE_READ(task, pid) != BPF_CORE_READ(task, tgid))
		return 0; // a thread: it has the contexts of its process
	if (!BPF_CORE_READ(task, mm))
		return 0; // it has ended, or is the kernel's own
	level = BPF_CORE_READ(reader, thread_pid, level);
	pid = BPF_CORE_READ(task, thread_pid);
	bpf_core_read(&w.pid, sizeof(w.pid), (void *)&pid->numbers[0].nr + level * bpf_core_type_size(struct upid));
	w.seq = it->meta->seq;
	none.pid = w.pid; // a child after a fork has the ring of its parent, and no context
	bpf_seq_write(w.seq, &none, sizeof(none));
	w.table = BPF_CORE_READ(task, mm, ioctx_table);
	if (w.table)
		bpf_loop(most_contexts, tell, &w, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
