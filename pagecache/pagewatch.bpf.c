//go:build ignore

// pagewatch counts the pages that enter and leave the page cache of watched
// files, per block of each file, and notes which parts of them others read.
//
// A file is known by the address of its mapping (struct address_space), which
// belongs to one inode as long as somebody has the file open; whoever watches a
// file keeps a descriptor. Device and inode number would not do: on btrfs and
// overlayfs those of stat(2) are not those of the inode that holds the pages.
//
// The few kernel types are declared here with the fields that are used; where
// these are is found out when the program is loaded (CO-RE). Events are counted
// in an array that user space maps, so that nothing is allocated here and
// reading the counters takes no system call.
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define KERNEL __attribute__((preserve_access_index))

struct address_space;
struct file {
	struct address_space *f_mapping;
} KERNEL;
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} KERNEL;
struct files_struct {
	struct fdtable *fdt;
} KERNEL;
struct task_struct {
	struct files_struct *files;
} KERNEL;

struct folio {
	struct address_space *mapping;
	unsigned long index;
	unsigned long _flags_1;
} KERNEL;
// Since Linux 6.18 the flags are a structure.
struct folio___struct {
	struct {
		unsigned long f;
	} flags;
} KERNEL;
struct folio___plain {
	unsigned long flags;
} KERNEL;
// Until Linux 6.5 the order had a field of its own.
struct folio___order {
	unsigned char _folio_order;
} KERNEL;
enum pageflags {
	PG_head,
};

// A span is the counters [first, first+count) of a file. The last one takes all
// blocks that have none of their own.
struct span {
	__u32 first, count;
};

// A counter counts pages, modulo 2^32.
struct counter {
	__u32 added, removed;
};

// block_shift is the binary logarithm of the pages in a block.
const volatile __u32 block_shift = 12;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536); // set when it is loaded
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64); // address of the mapping
	__type(value, struct span);
} watched SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 65536); // set when it is loaded
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct counter);
} counters SEC(".maps");

// reads has for each block the parts of it that were read, a bit for each 64th.
// User space takes them out.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 65536); // set when it is loaded
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} reads SEC(".maps");

// self is the process that watches. What it reads does not count.
__u32 self;

static __always_inline unsigned int order(struct folio *f)
{
	unsigned long flags;

	if (bpf_core_field_exists(((struct folio___struct *)f)->flags.f))
		flags = ((struct folio___struct *)f)->flags.f;
	else
		flags = ((struct folio___plain *)f)->flags;
	if (!(flags & 1UL << bpf_core_enum_value(enum pageflags, PG_head)))
		return 0;
	if (bpf_core_field_exists(((struct folio___order *)f)->_folio_order))
		return ((struct folio___order *)f)->_folio_order;
	return f->_flags_1 & 0xff;
}

// max_blocks is how many blocks one folio can cover: huge folios of kernels with
// large pages are larger than a block.
#define max_blocks 64

static __always_inline int count(struct folio *f, int removed)
{
	__u64 mapping = (__u64)f->mapping;
	struct span *s = bpf_map_lookup_elem(&watched, &mapping);
	__u64 block, pages, most;

	if (!s)
		return 0;
	block = f->index >> block_shift;
	pages = 1ULL << (order(f) & 63);
	most = 1ULL << block_shift;
	for (int i = 0; i < max_blocks && pages; i++, block++) {
		__u32 n = pages < most ? pages : most;
		__u32 last = s->count - 1;
		__u32 at = s->first + (block < last ? (__u32)block : last);
		struct counter *c = bpf_map_lookup_elem(&counters, &at);

		if (!c)
			return 0;
		if (removed)
			__sync_fetch_and_add(&c->removed, n);
		else
			__sync_fetch_and_add(&c->added, n);
		pages -= n;
	}
	return 0;
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(page_added, struct folio *f)
{
	return count(f, 0);
}

SEC("tp_btf/mm_filemap_delete_from_page_cache")
int BPF_PROG(page_removed, struct folio *f)
{
	return count(f, 1);
}

#define part_shift (block_shift - 6)

// pages_read sees every read(2), pread(2) and sendfile(2) that goes through the page
// cache, whether the pages were there or came for it. The tracepoint is there since Linux
// 6.13; with older kernels this program is left out.
SEC("tp_btf/mm_filemap_get_pages")
int BPF_PROG(pages_read, struct address_space *m, unsigned long index, unsigned long last)
{
	__u64 mapping = (__u64)m;
	struct span *s = bpf_map_lookup_elem(&watched, &mapping);
	__u64 block = index >> block_shift;

	if (!s || bpf_get_current_pid_tgid() >> 32 == self)
		return 0;
	for (int i = 0; i < max_blocks && index <= last && block < s->count - 1; i++, block++) {
		__u64 begin = block << block_shift, end = begin + (1ULL << block_shift);
		__u64 from = (index - begin) >> part_shift;
		__u64 to = ((last < end ? last : end - 1) - begin) >> part_shift;
		__u64 parts = (~0ULL << (from & 63)) & (~0ULL >> ((63 - to) & 63));
		__u32 at = s->first + (__u32)block;
		__u64 *r = bpf_map_lookup_elem(&reads, &at);

		if (!r)
			return 0;
		if ((*r & parts) != parts)
			__sync_fetch_and_or(r, parts);
		index = end;
	}
	return 0;
}

void bpf_rcu_read_lock(void) __ksym;
void bpf_rcu_read_unlock(void) __ksym;

// A request is about the file that the calling process has open as fd. With a
// count of 0 the file is forgotten.
struct request {
	__u32 fd;
	struct span span;
};

// follow is called by user space (BPF_PROG_RUN). It returns 0 or an error number.
SEC("syscall")
int follow(struct request *r)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	__u32 fd = r->fd;
	struct span span = r->span;
	struct fdtable *table;
	struct file *file = 0;
	__u64 mapping;
	long err;

	self = bpf_get_current_pid_tgid() >> 32;
	// The table of descriptors may be replaced by a larger one at any time.
	bpf_rcu_read_lock();
	table = BPF_CORE_READ(task, files, fdt);
	if (fd < BPF_CORE_READ(table, max_fds))
		bpf_probe_read_kernel(&file, sizeof(file), BPF_CORE_READ(table, fd) + fd);
	bpf_rcu_read_unlock();
	if (!file)
		return 9; // EBADF
	mapping = (__u64)BPF_CORE_READ(file, f_mapping);
	if (!mapping)
		return 22; // EINVAL
	if (span.count)
		err = bpf_map_update_elem(&watched, &mapping, &span, BPF_ANY);
	else
		err = bpf_map_delete_elem(&watched, &mapping);
	return -err;
}

char _license[] SEC("license") = "GPL";
