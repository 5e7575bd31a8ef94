package gateway

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
	"headrace/meta"
)

// throws refuses a method.
func throws(class, message string) method {
	return func(*call, proto.Message) (proto.Message, error) { return nil, ipc.Throw(class, "%s", message) }
}

// answers answers with a message of its own, after looking whether there is anything at a path, if the request has one.
func answers[Q, A proto.Message](a A) method {
	return on(func(c *call, q Q) (A, error) {
		if p, ok := any(q).(interface{ GetSrc() string }); ok {
			return a, c.exists(p.GetSrc())
		}
		return a, nil
	})
}

// absent are the methods that ask about what there is none of.
var absent = table{
	"getSnapshottableDirListing": answers[*pb.GetSnapshottableDirListingRequestProto](&pb.GetSnapshottableDirListingResponseProto{}),
	"getEZForPath":               answers[*pb.GetEZForPathRequestProto](&pb.GetEZForPathResponseProto{}),
	"listEncryptionZones":        answers[*pb.ListEncryptionZonesRequestProto](&pb.ListEncryptionZonesResponseProto{HasMore: proto.Bool(false)}),
	"getErasureCodingPolicy":     answers[*pb.GetErasureCodingPolicyRequestProto](&pb.GetErasureCodingPolicyResponseProto{}),
	"getErasureCodingPolicies":   answers[*pb.GetErasureCodingPoliciesRequestProto](&pb.GetErasureCodingPoliciesResponseProto{}),
	"getErasureCodingCodecs":     answers[*pb.GetErasureCodingCodecsRequestProto](&pb.GetErasureCodingCodecsResponseProto{}),
	"getSlowDatanodeReport":      answers[*pb.GetSlowDatanodeReportRequestProto](&pb.GetSlowDatanodeReportResponseProto{}),
	"getDataEncryptionKey":       answers[*pb.GetDataEncryptionKeyRequestProto](&pb.GetDataEncryptionKeyResponseProto{}),
	// No token, as from an HDFS that has no security: clients go on without.
	"getDelegationToken": answers[*pb.GetDelegationTokenRequestProto](&pb.GetDelegationTokenResponseProto{}),
	"upgradeStatus":      answers[*pb.UpgradeStatusRequestProto](&pb.UpgradeStatusResponseProto{UpgradeFinalized: proto.Bool(true)}),
}

const (
	classUnsupported = "java.lang.UnsupportedOperationException"
	classSnapshot    = "org.apache.hadoop.hdfs.protocol.SnapshotException"
	classHadoopArg   = "org.apache.hadoop.HadoopIllegalArgumentException"
)

var (
	noSnapshots   = throws(classSnapshot, "Directory is not a snapshottable directory: there are no snapshots here")
	noCoding      = throws(classHadoopArg, "there are no erasure coding policies here")
	noZones       = throws(ipc.ClassIO, "there are no encryption zones here, since no key provider is available")
	noDelegation  = throws(ipc.ClassIO, "there are no delegation tokens here")
	noEditLog     = throws(classUnsupported, "there is no edit log here")
	noUpgrade     = throws(classUnsupported, "there are no upgrades here: stop the node and start the new program")
	noNodesToHave = throws(classUnsupported, "there is no list of data nodes and no balancer here: nodes join by themselves, and leave by headrace dfs drain and remove")
)

// replicated is the policy of erasure coding by which there is none (SystemErasureCodingPolicies): all files have
// it. MapReduce asks for it, for the directory in which it puts a job.
const replicated = "replication"

var (
	errCoding = ipc.Throw(classHadoopArg, "there is no erasure coding policy here but %s", replicated)
	errPolicy = ipc.Throw(classUnsupported, "Failed to set storage policy: there is one, HOT")
)

// onlyPolicies refuses policies of a new file that there are not; none is the one that there is.
func onlyPolicies(coding, storage string) error {
	if coding != "" && coding != replicated {
		return errCoding
	}
	if storage != "" && !strings.EqualFold(storage, hot().GetName()) {
		return errPolicy
	}
	return nil
}

func setCoding(c *call, q *pb.SetErasureCodingPolicyRequestProto) (*pb.SetErasureCodingPolicyResponseProto, error) {
	s, err := c.stat(q.GetSrc())
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return nil, ipc.Throw("java.io.FileNotFoundException", "Path not found: %s", q.GetSrc())
	case q.GetEcPolicyName() != replicated:
		return nil, errCoding
	case s.GetFileType() != pb.HdfsFileStatusProto_IS_DIR:
		return nil, ipc.Throw(ipc.ClassIO, "Attempt to set an erasure coding policy for a file %s", q.GetSrc())
	}
	return &pb.SetErasureCodingPolicyResponseProto{}, c.ask(func(m meta.Query) error { return m.Check(q.GetSrc(), meta.Write) })
}

// mayWrite refuses a path at which there is nothing, or which the caller may not change: what is to be changed is as it is to be.
func (c *call) mayWrite(path string) error {
	if err := c.exists(path); err != nil {
		return err
	}
	return c.ask(func(m meta.Query) error { return m.Check(path, meta.Write) })
}

// refused are the methods that there are not.
var refused = table{
	"createSymlink": throws(classUnsupported, "Symlinks not supported"),

	"allowSnapshot": noSnapshots, "disallowSnapshot": noSnapshots, "createSnapshot": noSnapshots, "deleteSnapshot": noSnapshots, "renameSnapshot": noSnapshots,
	"getSnapshotListing": noSnapshots, "getSnapshotDiffReport": noSnapshots, "getSnapshotDiffReportListing": noSnapshots,

	"setErasureCodingPolicy": on(setCoding), "unsetErasureCodingPolicy": noCoding, "addErasureCodingPolicies": noCoding, "removeErasureCodingPolicy": noCoding,
	"enableErasureCodingPolicy": noCoding, "disableErasureCodingPolicy": noCoding, "getECTopologyResultForPolicies": noCoding,

	"createEncryptionZone": noZones, "reencryptEncryptionZone": noZones, "listReencryptionStatus": noZones,

	"setStoragePolicy": on(func(c *call, q *pb.SetStoragePolicyRequestProto) (*pb.SetStoragePolicyResponseProto, error) {
		if !strings.EqualFold(q.GetPolicyName(), hot().GetName()) {
			return nil, errPolicy
		}
		return &pb.SetStoragePolicyResponseProto{}, c.mayWrite(q.GetSrc())
	}),
	"unsetStoragePolicy": on(func(c *call, q *pb.UnsetStoragePolicyRequestProto) (*pb.UnsetStoragePolicyResponseProto, error) {
		return &pb.UnsetStoragePolicyResponseProto{}, c.mayWrite(q.GetSrc())
	}),
	"satisfyStoragePolicy": throws(classUnsupported, "there is one storage policy, HOT, and all files have it"),

	"renewDelegationToken": noDelegation, "cancelDelegationToken": noDelegation,

	"getCurrentEditLogTxid": noEditLog, "getEditsFromTxid": noEditLog, "rollEdits": noEditLog, "saveNamespace": noEditLog, "metaSave": noEditLog,
	"restoreFailedStorage": noEditLog,

	"finalizeUpgrade": noUpgrade, "rollingUpgrade": noUpgrade,

	"refreshNodes": noNodesToHave, "setBalancerBandwidth": noNodesToHave,
}
