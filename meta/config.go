package meta

// Config is what a file system keeps to. It is part of the state, so that all who hold
// the state decide alike. Defaults are HDFS's.
type Config struct {
	MinBlockSize   int64 // dfs.namenode.fs-limits.min-block-size
	MinReplication uint16
	MaxReplication uint16
	MaxName        int   // bytes of a name
	MaxEntries     int   // of a directory
	MaxBlocks      int   // of a file
	MaxXAttrs      int   // of a file or directory, that users see
	MaxXAttr       int   // bytes of name and value
	ListLimit      int   // entries of a page
	SoftLimit      int64 // of a lease, ms
	HardLimit      int64
	AnswerTime     int64 // how long answers are kept for those who ask again, ms
	MaxAnswers     uint64
	Shard          uint64 // whose numbers begin with it
	// Set by Format: of those who may do all, and when that was.
	Group string
	Born  int64
}

// DefaultConfig returns HDFS's defaults.
func DefaultConfig() Config {
	return Config{
		MinBlockSize: 1 << 20, MinReplication: 1, MaxReplication: 512, MaxName: 255, MaxEntries: 1 << 20, MaxBlocks: 10_000,
		MaxXAttrs: 32, MaxXAttr: 16384, ListLimit: 1000, SoftLimit: 60_000, HardLimit: 20 * 60_000,
		AnswerTime: 10 * 60_000, MaxAnswers: 1 << 20,
	}
}

// recoveryTime is how long a recovery of a block may take before another is begun, in ms
// (30 heartbeats, HDFS's PendingRecoveryBlocks).
const recoveryTime = 90_000

func (o *Config) code(c *coder) {
	number(c, &o.MinBlockSize)
	number(c, &o.MinReplication)
	number(c, &o.MaxReplication)
	for _, v := range []*int{&o.MaxName, &o.MaxEntries, &o.MaxBlocks, &o.MaxXAttrs, &o.MaxXAttr, &o.ListLimit} {
		number(c, v)
	}
	number(c, &o.SoftLimit)
	number(c, &o.HardLimit)
	number(c, &o.AnswerTime)
	number(c, &o.MaxAnswers)
	number(c, &o.Shard)
	text(c, &o.Group)
	c.signed(&o.Born)
}

// Numbers have 12 bits of the shard they were born in above 51 of a counter. The root's is
// the one it has in HDFS, and blocks begin where HDFS's do.
const (
	shardShift = 51
	rootID     = 16385
	firstBlock = 1<<30 + 1
	firstStamp = 1001
)

// Format makes an empty file system: a root directory that belongs to somebody, and was
// changed at 0 as HDFS says. Call it on an empty state, which is not read.
func Format(v View, o Config, owner, group string, now int64) {
	o.Group, o.Born = group, now
	born := o.Shard << shardShift
	s := &records{v: v, config: o, surveys: &surveys{}, next: &counters{Inode: born + rootID + 1, Block: born + firstBlock, Stamp: firstStamp}}
	v.Set(key(keyConfig, 0), encode(recordVersion, &o))
	s.save(&inode{ID: rootID, Directory: true, Mode: 0o755, Owner: owner, Group: group, NameQuota: maxQuota, SpaceQuota: -1})
	v.Set(key(keyConfig, 1), encode(recordVersion, s.next))
}

// maxQuota is the one for names that HDFS's root has when none was set.
const maxQuota = 1<<63 - 1
