package names

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"

	"headrace/quorum"
	"headrace/ring"
)

// Member is a node as others reach it.
type Member struct {
	// Name is the node's on the ring, the one that blocks in package meta have, and HDFS's DatanodeUuid.
	Name string
	// Number is the node's in quorum.Replica; it is never used twice.
	Number uint32
	// Storage is HDFS's storage id.
	Storage string
	// Host is an IP address; the ports are of HDFS's RPC and data transfer, of WebHDFS, and of what is between nodes.
	Host                 string
	RPC, Data, Web, Peer uint16
	Rack                 string
	// Version is what the node understands, as far as that is noted: see View.As.
	Version uint32 `json:",omitempty"`
}

// DataAddress is where the node's blocks are read and written, HOST:PORT.
func (m Member) DataAddress() string { return m.at(m.Data) }

// WebAddress is where the node serves WebHDFS and its page, HOST:PORT.
func (m Member) WebAddress() string { return m.at(m.Web) }

// PeerAddress is where other nodes reach it, HOST:PORT.
func (m Member) PeerAddress() string { return m.at(m.Peer) }

func (m Member) at(port uint16) string { return net.JoinHostPort(m.Host, strconv.Itoa(int(port))) }

// View is what a node knows of the others. It is never changed, but replaced as a whole.
type View struct {
	// Version is the one in force: whoever understands less is no node any more, and no command takes a newer one.
	Version uint32
	Table   *ring.Table
	// Members are all nodes of the table, by name.
	Members map[string]Member
	// Seats are the replicas of the names, by the names of their nodes. Whoever has a seat votes, or is to.
	Seats map[string]quorum.Replica
	// Index is the place in the names' log of the last change of all this: of two views with
	// one epoch, the one with the higher index is newer.
	Index uint64
	// Leader is the name of the node that leads, in this term; when it is not known it is empty, and the term is that of the
	// last one that was known.
	Leader string
	Term   uint64
}

// Number returns the member of a number.
func (v *View) Number(n uint32) (Member, bool) {
	for _, m := range v.Members {
		if m.Number == n {
			return m, true
		}
	}
	return Member{}, false
}

// Merge returns what two views say together: the newer table with its members, and who leads in the later
// term. It returns v itself when other has nothing new.
func (v *View) Merge(other *View) *View {
	m := *v
	if a, b := other.Table.Epoch(), v.Table.Epoch(); a > b || a == b && other.Index > v.Index {
		m.Version, m.Table, m.Members, m.Seats, m.Index = other.Version, other.Table, other.Members, other.Seats, other.Index
	}
	if other.Leader != "" && (other.Term > v.Term || other.Term == v.Term && v.Leader == "") {
		m.Leader, m.Term = other.Leader, other.Term
	}
	if m.Table == v.Table && m.Index == v.Index && m.Leader == v.Leader && m.Term == v.Term {
		return v
	}
	return &m
}

const (
	mostText  = 1 << 10
	mostTable = 1 << 22
)

// ErrView is the error for bytes that are no view.
var ErrView = errors.New("names: not the bytes of a view")

// Encode returns a view as bytes, always the same for the same view. They begin with the version in force, and are such as nodes of that version know.
func (v *View) Encode() []byte {
	version := max(version1, v.Version)
	b := binary.AppendUvarint(nil, uint64(version))
	number := func(n uint64) { b = binary.AppendUvarint(b, n) }
	text := func(s string) { number(uint64(len(s))); b = append(b, s...) }
	text(string(v.Table.Encode()))
	number(uint64(len(v.Members)))
	for _, name := range slices.Sorted(maps.Keys(v.Members)) {
		m := v.Members[name]
		for _, s := range []string{name, m.Storage, m.Host, m.Rack} {
			text(s)
		}
		for _, n := range []uint64{uint64(m.Number), uint64(m.RPC), uint64(m.Data), uint64(m.Web), uint64(m.Peer), uint64(v.Seats[name])} {
			number(n)
		}
		if version >= version2 {
			number(uint64(m.Version))
		}
	}
	number(v.Index)
	text(v.Leader)
	number(v.Term)
	return b
}

// DecodeView reads what Encode has written. Other bytes are refused, with ErrOld if a version is in force that this program does not understand.
func DecodeView(b []byte) (*View, error) {
	v, err := decodeView(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrView, err)
	}
	return v, nil
}

func decodeView(b []byte) (*View, error) {
	r := &reader{b: b}
	version := uint32(r.number(1<<32 - 1))
	if err := (&View{Version: version}).Old(Understands()); err != nil {
		return nil, err
	}
	table, err := ring.Decode([]byte(r.text(mostTable)))
	if err != nil {
		return nil, err
	}
	v := &View{Version: version, Table: table, Members: map[string]Member{}, Seats: map[string]quorum.Replica{}}
	for range min(r.number(ring.MaxNodes), uint64(len(r.b))) {
		m := Member{Name: r.text(mostText), Storage: r.text(mostText), Host: r.text(mostText), Rack: r.text(mostText)}
		m.Number = uint32(r.number(1<<32 - 1))
		for _, port := range []*uint16{&m.RPC, &m.Data, &m.Web, &m.Peer} {
			*port = uint16(r.number(1<<16 - 1))
		}
		if seat := quorum.Replica(r.number(1<<64 - 1)); seat != 0 {
			v.Seats[m.Name] = seat
		}
		if version >= version2 {
			m.Version = uint32(r.number(1<<32 - 1))
		}
		v.Members[m.Name] = m
	}
	v.Index, v.Leader, v.Term = r.number(1<<64-1), r.text(mostText), r.number(1<<64-1)
	if r.bad || !bytes.Equal(v.Encode(), b) {
		return nil, errors.New("not as they are written")
	}
	return v, nil
}

// reader takes numbers and texts from bytes until one is wrong; then there is nothing left.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) number(most uint64) uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > most {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) text(most uint64) string {
	n := r.number(most)
	if n > uint64(len(r.b)) {
		r.b, r.bad = nil, true
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}
