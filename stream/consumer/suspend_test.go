package consumer

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"headrace/internal/linux"
)

func catches(t testing.TB, pid int, sig syscall.Signal) bool {
	t.Helper()
	st, err := linux.ProcFS("").Status(pid)
	must(t, err)
	return st.Catches(sig)
}

var _ = fmt.Sprint
var _ = os.Getpid
var _ = strings.Contains
