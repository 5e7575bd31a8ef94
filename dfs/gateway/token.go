package gateway

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
	"headrace/hdfs/xfer"
)

// tokenTime is how long a token is good (dfs.block.access.token.lifetime).
const tokenTime = 10 * time.Hour

// tokens issues and checks block tokens, as HDFS has them (BlockTokenIdentifier, as a message): what they allow,
// and a signature of that.
type tokens struct {
	key  []byte
	pool string
	now  func() time.Time
}

func (t *tokens) issue(block uint64, mode pb.AccessModeProto) *pb.TokenProto {
	id, err := proto.Marshal(&pb.BlockTokenSecretProto{ExpiryDate: proto.Uint64(uint64(t.now().Add(tokenTime).UnixMilli())), KeyId: proto.Uint32(1),
		BlockPoolId: &t.pool, BlockId: &block, Modes: []pb.AccessModeProto{mode}})
	if err != nil {
		panic("gateway: a token: " + err.Error()) // it has no text that a client chose
	}
	return &pb.TokenProto{Identifier: id, Password: t.sign(id), Kind: proto.String("HDFS_BLOCK_TOKEN"), Service: proto.String("")}
}

// noToken is in the place of a token that was not issued.
func noToken() *pb.TokenProto {
	return &pb.TokenProto{Identifier: []byte{}, Password: []byte{}, Kind: proto.String(""), Service: proto.String("")}
}

func (t *tokens) sign(id []byte) []byte {
	h := hmac.New(sha256.New, t.key)
	h.Write(id)
	return h.Sum(nil)
}

// modes are what operations need.
var modes = map[xfer.Op]pb.AccessModeProto{xfer.OpReadBlock: pb.AccessModeProto_READ, xfer.OpBlockChecksum: pb.AccessModeProto_READ,
	xfer.OpWriteBlock: pb.AccessModeProto_WRITE, xfer.OpTransferBlock: pb.AccessModeProto_COPY}

// check refuses an operation without a token of ours for it.
func (t *tokens) check(_ context.Context, a xfer.Access) error {
	mode, ok := modes[a.Op]
	if !ok {
		return fmt.Errorf("there is no token for %v", a.Op)
	}
	if !hmac.Equal(t.sign(a.Token.GetIdentifier()), a.Token.GetPassword()) {
		return errors.New("the block token was not issued by this node")
	}
	var id pb.BlockTokenSecretProto
	if err := proto.Unmarshal(a.Token.GetIdentifier(), &id); err != nil {
		return fmt.Errorf("the block token: %w", err)
	}
	switch {
	case t.now().UnixMilli() > int64(id.GetExpiryDate()):
		return errors.New("the block token has expired")
	case a.Block.Pool != t.pool, id.GetBlockPoolId() != t.pool, id.GetBlockId() != a.Block.ID:
		return errors.New("the block token is for another block")
	case !slices.Contains(id.Modes, mode):
		return fmt.Errorf("the block token allows %v, not %v", id.Modes, mode)
	}
	return nil
}
