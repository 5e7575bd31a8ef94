package image

// Field numbers of CRIU 4.2's images/*.proto, as far as Headrace looks at them.
const (
	// inventory_entry, of inventory.img: the run of CRIU that made the dump.
	InventoryRunID = 13

	// file_entry, of files.img: the type, the id, and one field for each type.
	FileType    = 1
	FileID      = 2
	FileReg     = 3
	FileInet    = 4
	FileInotify = 13
	FileUnix    = 16
	FileFifo    = 17
	FileTTY     = 19

	// reg_file_entry: whatever is opened by its path.
	RegID    = 1
	RegFlags = 2
	RegName  = 6
	RegExt   = 9
	RegMode  = 10

	// inet_sk_entry
	InetFamily   = 3
	InetType     = 4
	InetProto    = 5
	InetState    = 6
	InetSrcPort  = 7
	InetDstPort  = 8
	InetBacklog  = 10
	InetSrcAddr  = 11
	InetDstAddr  = 12
	InetOptions  = 14
	InetV6Only   = 15
	InetIfname   = 17
	InetShutdown = 19

	// sk_opts_entry
	OptionReuseAddr = 7
	OptionReusePort = 17

	// inotify_file_entry, its inotify_wd_entry and their fh_entry
	InotifyWatch = 5
	WatchHandle  = 7
	HandlePath   = 4

	// unix_sk_entry
	UnixInode = 2
	UnixState = 4
	UnixPeer  = 8
	UnixName  = 11

	// fifo_entry and tty_file_entry: the reg_file_entry that has the path.
	FifoRegID = 3
	TTYRegID  = 6

	// tty_info_entry, of tty-info.img
	TTYInfoEntryType = 2
	TTYPseudo        = 1
	TTYControlling   = 4

	// fdinfo_entry, of fdinfo-*.img: a descriptor of a process.
	FdinfoID   = 1
	FdinfoType = 3
	FdinfoFD   = 4

	// file_lock_entry, of filelocks.img
	LockFlags = 1
	LockType  = 2 // as for fcntl(2)
	LockPID   = 3
	LockFD    = 4
	LockStart = 5
	LockLen   = 6

	// fs_entry, of fs-PID.img
	FSCwd  = 1
	FSRoot = 2

	// mm_entry, of mm-PID.img, and vma_entry. A mapped file's id is in VMAShmID.
	MMExe       = 12
	MMVMA       = 14
	MMAIO       = 16 // aio_ring_entry
	AIOStart    = 1
	VMAStart    = 1
	VMAEnd      = 2
	VMAShmID    = 4
	VMAProt     = 5 // as for mmap(2), and the flags
	VMAFlags    = 6
	VMAStatus   = 7
	VMAFDFlags  = 10
	VMARegular  = 1 << 0
	VMAPrivFile = 1 << 6
	VMAShrdFile = 1 << 7
	VMAPrivAnon = 1 << 9
	VMAMemfd    = 1 << 14

	// core_entry, of core-TID.img, its task_core_entry, thread_core_entry and creds_entry
	CoreArch      = 1
	CoreX86       = 2
	CoreTask      = 3 // of first threads
	CoreThread    = 5
	TaskState     = 1
	TaskTimers    = 7
	TaskSignals   = 10
	ThreadSignals = 9
	ThreadCreds   = 10
	CredsGroups   = 14
	CredsUID      = 1 // and gid, euid, egid, suid, sgid, fsuid, fsgid up to 8
	CredsFSGID    = 8
	CredsCapPrm   = 10
	CredsCapEff   = 11
	CredsCapAmb   = 19
	IDsFiles      = 2
	PstreePID     = 1
	PstreeParent  = 2
	PstreeSession = 4
	PstreeThread  = 5

	// task_timers_entry: the itimer_entry of each kind of setitimer(2), and posix_timer_entry
	TimersReal    = 1
	TimersVirtual = 2
	TimersProf    = 3
	TimersPOSIX   = 4
	ITimerSeconds = 3 // to the next expiry
	ITimerMicros  = 4
	POSIXID       = 1
	POSIXSignal   = 3
	POSIXEvery    = 7 // seconds
	POSIXEveryNs  = 8
	POSIXSeconds  = 9
	POSIXNanos    = 10

	// signal_queue_entry and its siginfo_entry
	QueueSignal = 1
	SignalInfo  = 1

	// thread_info_x86 and its user_x86_regs_entry
	X86Regs   = 2
	X86R10    = 8
	X86AX     = 11
	X86DX     = 13
	X86SI     = 14
	X86DI     = 15
	X86OrigAX = 16
	X86IP     = 17
	X86Mode   = 28

	// remap_file_path_entry, of remap-fpath.img: files whose path is not theirs.
	RemapOrigID = 1
	RemapID     = 2
	RemapType   = 3
)

// Values of FileType and FdinfoType.
const (
	TypeReg       = 1
	TypePipe      = 2
	TypeFifo      = 3
	TypeInet      = 4
	TypeUnix      = 5
	TypeEventfd   = 6
	TypeEpoll     = 7
	TypeInotify   = 8
	TypeSignalfd  = 9
	TypePacket    = 10
	TypeTTY       = 11
	TypeFanotify  = 12
	TypeNetlink   = 13
	TypeNamespace = 14
	TypeTun       = 15
	TypeExternal  = 16
	TypeTimerfd   = 17
	TypeMemfd     = 18
	TypeBPFMap    = 19
	TypePidfd     = 20
)

// Values of CoreArch and RegMode.
const (
	ArchX86    = 1
	ModeCompat = 2
)

// StateStopped is the TaskState of a process that was stopped when it was dumped.
const StateStopped = 3

// Values of InetState and UnixState.
const (
	StateClosed = 7
	StateListen = 10
)

// LockPOSIX is the LockFlags of a lock that belongs to a process.
const LockPOSIX = 1

// Values of RemapType.
const (
	RemapLinked = 0 // the id is that of another reg_file_entry, a name for a while
	RemapGhost  = 1 // the id is in the name of ghost-file-ID.img (hexadecimal)
	RemapProcfs = 2 // the id is a process that has ended
)
