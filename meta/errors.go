package meta

import "fmt"

// An Error is what HDFS throws in the same place. HDFS's clients know exceptions by their
// class, and some by how the message begins.
type Error struct {
	Class   string // the full name of the Java class
	Message string
}

func (e *Error) Error() string { return e.Class + ": " + e.Message }

func (e *Error) code(c *coder) { text(c, &e.Class); text(c, &e.Message) }

// The classes of exceptions.
const (
	classIO              = "java.io.IOException"
	classNotFound        = "java.io.FileNotFoundException"
	classArgument        = "java.lang.IllegalArgumentException"
	classHadoopArgument  = "org.apache.hadoop.HadoopIllegalArgumentException"
	classExists          = "org.apache.hadoop.fs.FileAlreadyExistsException"
	classInvalidPath     = "org.apache.hadoop.fs.InvalidPathException"
	classParentNoDir     = "org.apache.hadoop.fs.ParentNotDirectoryException"
	classNotEmpty        = "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException"
	classNoDir           = "org.apache.hadoop.fs.PathIsNotDirectoryException"
	classUnsupported     = "java.lang.UnsupportedOperationException"
	classAccess          = "org.apache.hadoop.security.AccessControlException"
	classACL             = "org.apache.hadoop.hdfs.protocol.AclException"
	classBeingCreated    = "org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException"
	classRecovering      = "org.apache.hadoop.hdfs.protocol.RecoveryInProgressException"
	classNoXAttr         = "org.apache.hadoop.hdfs.protocol.XAttrNotFoundException"
	classNameTooLong     = "org.apache.hadoop.hdfs.protocol.FSLimitException$PathComponentTooLongException"
	classTooManyItems    = "org.apache.hadoop.hdfs.protocol.FSLimitException$MaxDirectoryItemsExceededException"
	classSnapshot        = "org.apache.hadoop.hdfs.protocol.SnapshotException"
	classSafeMode        = "org.apache.hadoop.hdfs.server.namenode.SafeModeException"
	classLeaseExpired    = "org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException"
	classNotReplicated   = "org.apache.hadoop.hdfs.server.namenode.NotReplicatedYetException"
	classInvalidRequest  = "org.apache.hadoop.fs.InvalidRequestException"
	classRetriable       = "org.apache.hadoop.ipc.RetriableException"
	classStartAfter      = "org.apache.hadoop.fs.DirectoryListingStartAfterNotFoundException"
	classAssertion       = "java.lang.AssertionError"
	classNSQuotaExceeded = "org.apache.hadoop.hdfs.protocol.NSQuotaExceededException"
	classDSQuotaExceeded = "org.apache.hadoop.hdfs.protocol.DSQuotaExceededException"
)

func fail(class, format string, args ...any) error {
	return &Error{class, fmt.Sprintf(format, args...)}
}
