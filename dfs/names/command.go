package names

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"headrace/meta"
	"headrace/ring"
)

// A command in the log is its kind and then its bytes.
const (
	kindMeta   = iota + 1 // a meta.Command
	kindRing              // a ring.Event: its name, a colon, JSON
	kindAdmit             // a Member, JSON
	kindSeat              // the name of a member that is to have a seat
	kindUnseat            // the name of one whose seat is taken away
	kindRaise             // a raise, JSON
)

// events are those of package ring, by their names in the log.
var events = func() map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for _, e := range []ring.Event{ring.Join{}, ring.Down{}, ring.Out{}, ring.Back{}, ring.Drain{}, ring.Fill{}, ring.Weigh{}, ring.Level{},
		ring.Confirm{}, ring.Lost{}, ring.Abandon{}, ring.Remove{}, ring.Rack{}} {
		t := reflect.TypeOf(e)
		all[t.Name()] = t
	}
	return all
}()

func encodeEvent(e ring.Event) ([]byte, error) {
	b, err := json.Marshal(e)
	if t := reflect.TypeOf(e); err == nil && events[t.Name()] != t {
		err = fmt.Errorf("names: %v is no event of the ring", t)
	}
	if err != nil {
		return nil, err
	}
	return append([]byte{kindRing}, reflect.TypeOf(e).Name()+":"+string(b)...), nil
}

// errNewer: the node that led when a command was proposed knows commands that this one does not. Whoever passed over one would have another
// state than the others from then on, and nobody would see it.
var errNewer = errors.New("names: the log has a command that this version of Headrace does not know: install the version of the other nodes here, and start again")

// newer is errNewer with what could not be read.
func newer(err error) error { return fmt.Errorf("%w (%w)", errNewer, err) }

// fromJSON reads JSON in which all is known.
func fromJSON(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

func decodeEvent(b []byte) (ring.Event, error) {
	for i, c := range b {
		if c != ':' {
			continue
		}
		t := events[string(b[:i])]
		if t == nil {
			break
		}
		e := reflect.New(t)
		if err := fromJSON(b[i+1:], e.Interface()); err != nil {
			return nil, err
		}
		return e.Elem().Interface().(ring.Event), nil
	}
	return nil, errors.New("an event of the ring")
}

// proposable refuses what those who read the log would not know as a command: there it would stop every node.
func proposable(data []byte) (err error) {
	switch data[0] {
	case kindMeta:
		_, err = meta.DecodeCommand(data[1:])
	case kindRing:
		_, err = decodeEvent(data[1:])
	case kindAdmit:
		_, err = decodeMember(data[1:])
	case kindRaise:
		_, err = decodeRaise(data[1:])
	}
	if err != nil {
		return fmt.Errorf("names: not a command: %w", err)
	}
	return nil
}

// An answer is its kind and then its bytes.
const (
	isAnswer  = iota // meta.EncodeAnswer, or nothing
	isRefused        // the error's text
	isInvalid        // the same, of the ring's errors
	isUnknown
	isState
	isOld
)

// sentinels are errors that keep what they are.
var sentinels = map[byte]error{isInvalid: ring.ErrInvalid, isUnknown: ring.ErrUnknown, isState: ring.ErrState, isOld: ErrOld}

// refusal is an error that comes out of the log.
type refusal struct {
	text string
	is   error
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.is }

func encodeError(err error) []byte {
	kind := byte(isRefused)
	for k, s := range sentinels { // one at most is in err
		if errors.Is(err, s) {
			kind = k
		}
	}
	return append([]byte{kind}, err.Error()...)
}

// decodeAnswer returns the bytes of an answer, or the error that it is.
func decodeAnswer(b []byte) ([]byte, error) {
	switch {
	case len(b) == 0:
		return nil, errors.New("names: an answer of no bytes")
	case b[0] != isAnswer:
		return nil, &refusal{string(b[1:]), sentinels[b[0]]}
	}
	return b[1:], nil
}

// encodeMeta returns a command as nodes of a version know it.
func encodeMeta(m meta.Command, version uint32) ([]byte, error) {
	b, err := m.EncodeFor(commandsOf(version))
	return append([]byte{kindMeta}, b...), err
}

func encodeMember(m Member) ([]byte, error) {
	b, err := json.Marshal(m)
	return append([]byte{kindAdmit}, b...), err
}

func decodeMember(b []byte) (m Member, err error) {
	err = fromJSON(b, &m)
	if err == nil && m.Name == "" {
		err = errors.New("names: a member without a name")
	}
	return m, err
}
