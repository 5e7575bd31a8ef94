package reopen

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	img "headrace/internal/criu/image"
	"headrace/internal/linux"
)

// Check says why the images in a directory cannot be restored safely for a user
// other than the daemon's: what CRIU would make, bind or open there as root and by
// a path that the user can change, and processes with rights that the user has not.
// It has nothing against root's own tasks.
func Check(dir string, user linux.Credentials, initPID int) error {
	if user.UID == 0 {
		return nil
	}
	t, err := scan(dir)
	if err != nil {
		return fmt.Errorf("read the images: %w", err)
	}
	for _, p := range t.paths {
		if err := t.checkPath(p); err != nil {
			return err
		}
	}
	for _, e := range t.files.Entries {
		if err := checkKind(e); err != nil {
			return err
		}
	}
	for _, s := range t.sockets {
		if len(s.at) == 0 {
			return errors.New("a socket of it is on its way through a unix socket, unread; checkpoint again when it was received")
		}
	}
	if err := t.checkTerminals(); err != nil {
		return err
	}
	return t.checkRights(user, initPID)
}

func (t *tree) checkPath(p *path) error {
	reg, err := t.files.Entries[p.entry].Message(img.FileReg)
	if err != nil {
		return err
	}
	if outside, _ := reg.Uint(img.RegExt); outside != 0 {
		return refuse(p.name, "it comes from outside of the task", "")
	}
	switch p.remap {
	case img.RemapLinked:
		return refuse(p.name, "it was deleted, and the file is still there under another name", "keep the name, or delete the other ones too")
	case img.RemapGhost:
		if m := p.mode & unix.S_IFMT; m == unix.S_IFCHR || m == unix.S_IFBLK {
			return refuse(p.name, "it is a device file that was deleted", "")
		}
	}
	if len(p.uses) == 0 {
		return refuse(p.name, "it is on its way through a unix socket, unread", "checkpoint again when it was received")
	}
	return nil
}

// kindNames are the kinds of descriptors that only root can make, whose restore acts by
// paths, or of which the kernel asks who has made them before it does what root may: that
// is root after a restore.
var kindNames = map[uint64]string{
	img.TypeNetlink: "a netlink socket",
	img.TypePacket:  "a packet socket", img.TypeNamespace: "a namespace", img.TypeTun: "a tun device",
	img.TypeExternal: "a file that CRIU does not know", img.TypeBPFMap: "a BPF map", img.TypeFanotify: "a fanotify watch",
}

const sockRaw = 3

func checkKind(e img.Message) error {
	kind, _ := e.Uint(img.FileType)
	switch kind {
	case img.TypeUnix:
		return checkUnix(e)
	case img.TypeInet:
		m, err := e.Message(img.FileInet)
		if err != nil {
			return err
		}
		if typ, _ := m.Uint(img.InetType); typ == sockRaw {
			return notForOthers("a raw socket")
		}
	case img.TypeInotify:
		return checkInotify(e)
	case img.TypeReg, img.TypePipe, img.TypeFifo, img.TypeEventfd, img.TypeEpoll, img.TypeSignalfd, img.TypeTTY,
		img.TypeTimerfd, img.TypeMemfd, img.TypePidfd:
	default:
		name := kindNames[kind]
		if name == "" {
			name = fmt.Sprintf("a descriptor of kind %d", kind)
		}
		return notForOthers(name)
	}
	return nil
}

func notForOthers(what string) error {
	return fmt.Errorf("it has %s, which can be brought back safely for root's own tasks only", what)
}

func checkUnix(e img.Message) error {
	m, err := e.Message(img.FileUnix)
	if err != nil {
		return err
	}
	name, _ := m.Bytes(img.UnixName)
	if len(name) > 0 && name[0] != 0 {
		return notForOthers(fmt.Sprintf("a unix socket with a path (%s)", strings.TrimRight(string(name), "\x00")))
	}
	// Who connects is told (SO_PEERCRED) that root listens, as it is CRIU that does.
	if state, _ := m.Uint(img.UnixState); state == img.StateListen {
		return notForOthers(fmt.Sprintf("a unix socket that listens (@%s)", strings.TrimLeft(string(name), "\x00")))
	}
	return nil
}

// checkInotify refuses watches that CRIU would set by a path.
func checkInotify(e img.Message) error {
	m, err := e.Message(img.FileInotify)
	if err != nil {
		return err
	}
	watches, err := m.Messages(img.InotifyWatch)
	if err != nil {
		return err
	}
	for _, w := range watches {
		h, err := w.Message(img.WatchHandle)
		if err != nil {
			return err
		}
		if path, ok := h.Bytes(img.HandlePath); ok {
			return notForOthers(fmt.Sprintf("an inotify watch that is kept by its path (%s)", path))
		}
	}
	return nil
}

// checkTerminals lets pass pseudo-terminals, which CRIU makes anew, and /dev/tty.
func (t *tree) checkTerminals() error {
	if len(t.alias) == 0 {
		return nil
	}
	entries, err := t.readIfThere("tty-info.img")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if kind, _ := e.Uint(img.TTYInfoEntryType); kind != img.TTYPseudo && kind != img.TTYControlling {
			return notForOthers("a terminal that is not a pseudo-terminal of its own")
		}
	}
	return nil
}

// checkRights compares the rights of every thread but init's with the user's.
func (t *tree) checkRights(user linux.Credentials, initPID int) error {
	old, err := img.Named(t.dir, "creds-*.img")
	if err != nil {
		return err
	}
	if len(old) > 0 {
		return fmt.Errorf("the image has a form that is too old (%s)", filepath.Base(old[0]))
	}
	cores, err := img.Threads(t.dir)
	if err != nil {
		return err
	}
	for _, core := range cores {
		tid, err := img.ThreadOf(core)
		if err != nil {
			return fmt.Errorf("%s: not the name of a thread's image", core)
		}
		pid, known := t.threads[tid]
		if known && pid == initPID {
			continue
		}
		if err := checkThread(core, user); err != nil {
			return fmt.Errorf("process %d of the task %w", pid, err)
		}
	}
	return nil
}

func checkThread(core string, user linux.Credentials) error {
	f, err := img.Read(core)
	if err != nil {
		return err
	}
	for _, e := range f.Entries {
		thread, err := e.Message(img.CoreThread)
		if err != nil {
			return err
		}
		creds, err := thread.Message(img.ThreadCreds)
		if err != nil {
			return err
		}
		if creds == nil {
			continue // it has ended
		}
		if err := checkCreds(creds, user); err != nil {
			return err
		}
	}
	return nil
}

// checkCreds compares a creds_entry.
func checkCreds(creds img.Message, user linux.Credentials) error {
	groups := append([]uint32{user.GID}, user.Groups...)
	for field := img.CredsUID; field <= img.CredsFSGID; field++ {
		id, ok := creds.Uint(fieldNumber(field))
		if !ok {
			return fmt.Errorf("has no complete identity in the image")
		}
		// uid, gid, euid, egid, ...
		isUser := (field-img.CredsUID)%2 == 0
		if isUser && uint32(id) != user.UID {
			return notItsUser("runs", "user", id, user)
		}
		if !isUser && !slices.Contains(groups, uint32(id)) {
			return notItsUser("runs", "group", id, user)
		}
	}
	extra, err := creds.Uints(img.CredsGroups)
	if err != nil {
		return err
	}
	for _, g := range extra {
		if !slices.Contains(groups, uint32(g)) {
			return notItsUser("is", "group", g, user)
		}
	}
	for _, field := range []fieldNumber{img.CredsCapPrm, img.CredsCapEff, img.CredsCapAmb} {
		words, err := creds.Uints(field)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(words, func(w uint64) bool { return w != 0 }) {
			return fmt.Errorf("has capabilities that user %d has not; tasks with set-user-id programs (sudo, su, ping) are checkpointed for root only", user.UID)
		}
	}
	return nil
}

func notItsUser(verb, what string, id uint64, user linux.Credentials) error {
	in := "as"
	if verb == "is" {
		in = "in"
	}
	return fmt.Errorf("%s %s %s %d, which is not user %d's; tasks with set-user-id or set-group-id programs (sudo, su) are checkpointed for root only", verb, in, what, id, user.UID)
}
