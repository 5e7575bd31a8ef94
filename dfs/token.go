package dfs

import (
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

// TokenTime is how long a token is good (dfs.block.access.token.lifetime).
const TokenTime = 10 * time.Hour

// Tokens issues and checks block tokens, as HDFS has them (BlockTokenIdentifier, as a message): what they allow,
// and a signature of that. All nodes of a file system have the same key, so a token is good at each of them.
type Tokens struct {
	Key  []byte
	Pool string
	Now  func() time.Time
}

// Tokens returns those of the file system.
func (n *Node) Tokens() *Tokens {
	return &Tokens{Key: n.Identity.Key, Pool: n.Identity.Pool, Now: n.Config.Now}
}

// Issue makes a token for one block and one kind of access, for a user or, if that is empty, for whoever has it.
func (t *Tokens) Issue(block uint64, mode pb.AccessModeProto, user string) *pb.TokenProto {
	secret := &pb.BlockTokenSecretProto{ExpiryDate: proto.Uint64(uint64(t.Now().Add(TokenTime).UnixMilli())), KeyId: proto.Uint32(1),
		BlockPoolId: &t.Pool, BlockId: &block, Modes: []pb.AccessModeProto{mode}}
	if user != "" {
		secret.UserId = &user
	}
	id, err := proto.Marshal(secret)
	if err != nil {
		panic("dfs: a token: " + err.Error())
	}
	return &pb.TokenProto{Identifier: id, Password: t.sign(id), Kind: proto.String("HDFS_BLOCK_TOKEN"), Service: proto.String("")}
}

func (t *Tokens) sign(id []byte) []byte {
	h := hmac.New(sha256.New, t.Key)
	h.Write(id)
	return h.Sum(nil)
}

// TokenUser returns the user whom a token that was checked was issued for, or "".
func TokenUser(t *pb.TokenProto) string {
	var id pb.BlockTokenSecretProto
	if proto.Unmarshal(t.GetIdentifier(), &id) != nil {
		return ""
	}
	return id.GetUserId()
}

// modes are what operations need.
var modes = map[xfer.Op]pb.AccessModeProto{xfer.OpReadBlock: pb.AccessModeProto_READ, xfer.OpBlockChecksum: pb.AccessModeProto_READ,
	xfer.OpWriteBlock: pb.AccessModeProto_WRITE, xfer.OpTransferBlock: pb.AccessModeProto_COPY}

// Check refuses an operation without a token of ours for it.
func (t *Tokens) Check(a xfer.Access) error {
	mode, ok := modes[a.Op]
	if !ok {
		return fmt.Errorf("there is no token for %v", a.Op)
	}
	if a.Copy { // no client is given such a token
		mode = pb.AccessModeProto_REPLACE
	}
	if !hmac.Equal(t.sign(a.Token.GetIdentifier()), a.Token.GetPassword()) {
		return errors.New("the block token was not issued by this file system")
	}
	var id pb.BlockTokenSecretProto
	if err := proto.Unmarshal(a.Token.GetIdentifier(), &id); err != nil {
		return fmt.Errorf("the block token: %w", err)
	}
	switch {
	case t.Now().UnixMilli() > int64(id.GetExpiryDate()):
		return errors.New("the block token has expired")
	case a.Block.Pool != t.Pool, id.GetBlockPoolId() != t.Pool, id.GetBlockId() != a.Block.ID:
		return errors.New("the block token is for another block")
	case !slices.Contains(id.Modes, mode):
		return fmt.Errorf("the block token allows %v, not %v", id.Modes, mode)
	}
	return nil
}
