package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

func statusesOf(l *meta.Listing) []fileStatus {
	all := make([]fileStatus, len(l.Entries))
	for i := range l.Entries {
		all[i] = statusOf(&l.Entries[i])
	}
	return all
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
