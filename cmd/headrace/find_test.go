package main

import (
	"testing"

	"headrace/wire"
	"headrace/wire/wireconnect"
)

// TestNameMeansOwnTask: a name means a task of the caller's, also one that has ended, before somebody else's that has not.
func TestNameMeansOwnTask(t *testing.T) {
	fake := newFake(t.TempDir())
	fake.tasks = []*wire.Task{
		{Id: "t1", Name: "backup", User: userName(), State: "failed"}, {Id: "t2", Name: "backup", User: "somebody", State: "running"},
		{Id: "t3", Name: "theirs", User: "somebody", State: "running"},
	}
	if err := fake.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.stop)
	client := wire.NewHTTPClient(fake.socket)
	defer client.CloseIdleConnections()
	d := &daemon{TaskServiceClient: wireconnect.NewTaskServiceClient(client, wire.BaseURL)}
	for name, want := range map[string]string{"backup": "t1", "theirs": "t3"} {
		if got, err := d.find(t.Context(), name); err != nil || got.Id != want {
			t.Errorf("%s is %v (%v), want %s", name, got, err, want)
		}
	}
}
