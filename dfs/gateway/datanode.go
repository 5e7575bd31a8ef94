package gateway

import (
	"google.golang.org/protobuf/proto"

	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
	"headrace/wire"
)

const dataNodeProtocol = "org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol"

// dataNode are the methods that clients call at a data node. Its port is that of the name node here. Who calls is not proved: they must tell
// nothing that is not everybody's, and change nothing.
var dataNode = table{
	"getReplicaVisibleLength": on(func(c *call, q *pb.GetReplicaVisibleLengthRequestProto) (*pb.GetReplicaVisibleLengthResponseProto, error) {
		i, err := c.node.Blocks.Stat(int64(q.GetBlock().GetBlockId()))
		if err != nil {
			return nil, ipc.Throw("org.apache.hadoop.hdfs.server.datanode.ReplicaNotFoundException", "Replica not found for block %d", q.GetBlock().GetBlockId())
		}
		return &pb.GetReplicaVisibleLengthResponseProto{Length: u64(c.node.Keeper.Visible(i))}, nil
	}),
	"getBlockLocalPathInfo": on(func(*call, *pb.GetBlockLocalPathInfoRequestProto) (*pb.GetBlockLocalPathInfoResponseProto, error) {
		return nil, ipc.Throw(ipc.ClassAccess, "Can't continue with getBlockLocalPathInfo() authorization. There are no files of single blocks here")
	}),
	"getDatanodeInfo": on(func(c *call, _ *pb.GetDatanodeInfoRequestProto) (*pb.GetDatanodeInfoResponseProto, error) {
		return &pb.GetDatanodeInfoResponseProto{LocalInfo: &pb.DatanodeLocalInfoProto{SoftwareVersion: proto.String(softwareVersion), ConfigVersion: proto.String("headrace"),
			Uptime: u64(0)}}, nil
	}),
}

// localBlocks are what processes of root, and of who runs this, may know of a node on their machine.
var localBlocks = table{
	"Extent": on(func(c *call, q *wire.ExtentRequest) (*wire.ExtentResponse, error) {
		if q.Pool != c.node.Identity.Pool {
			return &wire.ExtentResponse{Copy: &wire.BlockCopy{Block: q.Block}}, nil
		}
		return c.node.Extent(q.Block), nil
	}),
}

// softwareVersion is the version of Hadoop whose behaviour this is.
const softwareVersion = "3.5.0"

// available are the methods by which tools ask whether a name node is the active one.
var available = table{
	"getServiceStatus": on(func(*call, *pb.GetServiceStatusRequestProto) (*pb.GetServiceStatusResponseProto, error) {
		return &pb.GetServiceStatusResponseProto{State: pb.HAServiceStateProto_ACTIVE.Enum(), ReadyToBecomeActive: proto.Bool(true)}, nil
	}),
	"monitorHealth": on(func(*call, *pb.MonitorHealthRequestProto) (*pb.MonitorHealthResponseProto, error) {
		return &pb.MonitorHealthResponseProto{}, nil
	}),
	"transitionToActive":   throws("org.apache.hadoop.ha.ServiceFailedException", "there are no standbys here"),
	"transitionToStandby":  throws("org.apache.hadoop.ha.ServiceFailedException", "there are no standbys here"),
	"transitionToObserver": throws("org.apache.hadoop.ha.ServiceFailedException", "there are no standbys here"),
}

var mappings = table{
	"getGroupsForUser": on(func(c *call, q *pb.GetGroupsForUserRequestProto) (*pb.GetGroupsForUserResponseProto, error) {
		return &pb.GetGroupsForUserResponseProto{Groups: c.callers.Of(q.GetUser()).Groups}, nil
	}),
}
