package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"

	"headrace/dfs"
	"headrace/meta"
)

func thrown(class, format string, args ...any) error {
	return &meta.Error{Class: class, Message: fmt.Sprintf(format, args...)}
}

// answer sends an answer, or says that all is well.
func (r *request) answer(v any) {
	if v == nil {
		r.w.Header().Set("Content-Type", "application/octet-stream")
		r.w.WriteHeader(http.StatusOK)
		return
	}
	r.send(http.StatusOK, v)
}

func (r *request) send(status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		r.Log.Error("an answer cannot be written", "err", err)
		status, b = http.StatusInternalServerError, nil
	}
	r.w.Header().Set("Content-Type", "application/json")
	r.w.Header().Set("Cache-Control", "no-store")
	r.w.WriteHeader(status)
	r.w.Write(b)
}

// patienceFor is how many entries of an answer a client has BodyTime to take.
const patienceFor = 100

// sendAll sends a list between two texts. Each entry is made when those before it were taken, so that an answer takes no memory for its length,
// however slow the client is. When one fails the answer ends in its midst: the client is to see that something is missing.
func (r *request) sendAll(before string, entries iter.Seq2[any, error], after string) (any, error) {
	r.w.Header().Set("Content-Type", "application/json")
	r.w.Header().Set("Cache-Control", "no-store")
	io.WriteString(r.w, before)
	n := 0
	for e, err := range entries {
		if n%patienceFor == 0 {
			patience(r.w, r.BodyTime)
		}
		var b []byte
		if err == nil {
			b, err = json.Marshal(e)
		}
		if n++; err == nil && n > 1 {
			_, err = io.WriteString(r.w, ",")
		}
		if err == nil {
			_, err = r.w.Write(b)
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	io.WriteString(r.w, after)
	return served, nil
}

// paged yields what is said of the entries of a page, and of those that follow: each is asked for when the one before was taken, the one behind the last has none.
func paged[E, S any](page []E, next func() ([]E, error), say func(*E) S) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		for len(page) > 0 {
			for i := range page {
				if !yield(say(&page[i]), nil) {
					return
				}
			}
			var err error
			if page, err = next(); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

type remoteException struct {
	Exception     string `json:"exception"`
	JavaClassName string `json:"javaClassName"`
	Message       string `json:"message"`
}

// statuses are those of exceptions (ExceptionHandler); all others are of class IOException or below it.
var statuses = map[string]int{classNotFound: http.StatusNotFound, classArgument: http.StatusBadRequest, classHadoopArg: http.StatusBadRequest,
	classInvalidPath: http.StatusBadRequest, classUnsupported: http.StatusBadRequest, "java.lang.AssertionError": http.StatusInternalServerError}

// refuse tells the client what is wrong, as the exception that it is.
func (r *request) refuse(err error) {
	e, ok := errors.AsType[*meta.Error](err)
	if l, lost := errors.AsType[*dfs.NotLeader](err); lost {
		e, ok = &meta.Error{Class: classStandby, Message: l.Error()}, true
	}
	if !ok {
		if !errors.Is(err, context.Canceled) {
			r.Log.Info("a request has failed", "path", r.path, "err", err)
		}
		e = &meta.Error{Class: classIO, Message: err.Error()}
	}
	status := statuses[e.Class]
	if status == 0 {
		status = http.StatusForbidden
	}
	name := e.Class[strings.LastIndexAny(e.Class, ".$")+1:]
	r.send(status, map[string]any{"RemoteException": remoteException{name, e.Class, e.Message}})
}

// fileStatus is a file or directory (JsonUtil).
type fileStatus struct {
	AccessTime       int64  `json:"accessTime"`
	ACLBit           bool   `json:"aclBit,omitempty"`
	BlockSize        int64  `json:"blockSize"`
	ChildrenNum      uint64 `json:"childrenNum"`
	FileID           uint64 `json:"fileId"`
	Group            string `json:"group"`
	Length           int64  `json:"length"`
	ModificationTime int64  `json:"modificationTime"`
	Owner            string `json:"owner"`
	PathSuffix       string `json:"pathSuffix"`
	Permission       string `json:"permission"`
	Replication      uint16 `json:"replication"`
	StoragePolicy    int    `json:"storagePolicy"`
	Type             string `json:"type"`
}

func octal(mode uint16) string { return fmt.Sprintf("%o", mode) }

func statusOf(s *meta.Status) fileStatus {
	kind := "FILE"
	if s.Directory {
		kind = "DIRECTORY"
	}
	return fileStatus{s.Accessed, s.HasACL, s.BlockSize, s.Children, s.ID, s.Group, s.Size, s.Modified, s.Owner, s.Name, octal(s.Mode), s.Replication, 0, kind}
}

func entryText(e meta.ACLEntry) string {
	rights := []byte("---")
	for i := range rights {
		if e.Access&(4>>i) != 0 {
			rights[i] = "rwx"[i]
		}
	}
	scope := ""
	if e.Default {
		scope = "default:"
	}
	return scope + aclTypes[e.Type] + ":" + e.Name + ":" + string(rights)
}
