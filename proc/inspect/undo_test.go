package inspect

import (
	"slices"
	"testing"
)

func TestSemaphoresSince(t *testing.T) {
	const text = `       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime
         0         10   600          1  1000  1000  1000  1000          0 1790000000
 123456789         11   666          4     0     0     0     0 1790000100 1790000000
         0         12   600          1  1000  1000  1000  1000 1790000099 1790000000
`
	got, err := semaphoresSince(text, 1790000100)
	if err != nil || !slices.Equal(got, []string{"11"}) {
		t.Errorf("got %v, %v, want 11: 10 was never used, 12 before", got, err)
	}
	if _, err := semaphoresSince("key\n 1 2 3\n", 0); err == nil {
		t.Error("a line of another form was taken")
	}
}
