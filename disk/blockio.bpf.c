//go:build ignore

// blockio counts the reads and writes that are issued to block devices, and the
// reads that make the device seek.
//
// The few kernel types are declared here with the fields that are used; where
// these are is found out when the program is loaded (CO-RE). Requests may be
// issued on several processors at once: then which one was before the other is as
// open here as it is for the device.
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define KERNEL __attribute__((preserve_access_index))

struct gendisk {
	int major, first_minor;
} KERNEL;
struct request_queue {
	struct gendisk *disk;
} KERNEL;
struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
	__u64 __sector;
} KERNEL;
enum req_op {
	REQ_OP_READ = 0,
	REQ_OP_WRITE = 1,
	REQ_OP_ZONE_APPEND = 7,
};

#define operation_mask 0xff
#define sector_shift 9

// counts are of one disk. end is the sector after the last request.
struct counts {
	__u64 end;
	__u64 reads, read_bytes, seeks;
	__u64 writes, written_bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64); // major number, minor number
	__type(value, struct counts);
} disks SEC(".maps");

// missed is how many requests went to disks that did not fit into the map.
__u64 missed;

static __always_inline struct counts *counts_of(struct gendisk *disk)
{
	__u64 key = (__u64)(__u32)disk->major << 32 | (__u32)disk->first_minor;
	struct counts *c = bpf_map_lookup_elem(&disks, &key);
	struct counts none = {};

	if (c)
		return c;
	bpf_map_update_elem(&disks, &key, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&disks, &key);
}

static __always_inline int writes(unsigned int op)
{
	if (op == REQ_OP_WRITE)
		return 1;
	return bpf_core_enum_value_exists(enum req_op, REQ_OP_ZONE_APPEND) &&
	       op == bpf_core_enum_value(enum req_op, REQ_OP_ZONE_APPEND);
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(request_issued, struct request *rq)
{
	unsigned int op = rq->cmd_flags & operation_mask;
	__u64 bytes = rq->__data_len, sector = rq->__sector, end;
	struct gendisk *disk = rq->q->disk;
	struct counts *c;

	// Flushes and discards move no data, and no head to speak of.
	if (op != REQ_OP_READ && !writes(op))
		return 0;
	if (!disk || !bytes)
		return 0;
	c = counts_of(disk);
	if (!c) {
		__sync_fetch_and_add(&missed, 1);
		return 0;
	}
	end = __sync_lock_test_and_set(&c->end, sector + (bytes >> sector_shift));
	if (op != REQ_OP_READ) {
		__sync_fetch_and_add(&c->writes, 1);
		__sync_fetch_and_add(&c->written_bytes, bytes);
		return 0;
	}
	__sync_fetch_and_add(&c->reads, 1);
	__sync_fetch_and_add(&c->read_bytes, bytes);
	if (end != sector)
		__sync_fetch_and_add(&c->seeks, 1);
	return 0;
}

char _license[] SEC("license") = "GPL";
