package yarn

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"syscall"
	"testing"
)

// nativeEnv names the variable with the path of Hadoop's program container-executor,
// set up as Hadoop says: it belongs to root and a group, with mode 6050, and has its
// configuration beside it. YARN is run by the account that is named like the group.
const nativeEnv = "HEADRACE_CONTAINER_EXECUTOR"

// The executor that runs containers as others than the NodeManager.
func TestLinuxContainerExecutor(t *testing.T) {
	parallel(t, 30)
	needRoot(t)
	program := os.Getenv(nativeEnv)
	if program == "" {
		t.Skipf("Hadoop's native program container-executor cannot be had from Maven; name one in %s", nativeEnv)
	}
	info := must(os.Stat(program))(t)
	group := must(user.LookupGroupId(fmt.Sprint(info.Sys().(*syscall.Stat_t).Gid)))(t)
	const account = "nobody"
	c := startTest(t, Options{Mode: Headrace, Policy: "suspend", User: group.Name, Properties: map[string]string{
		"yarn.nodemanager.container-executor.class":                           headraceLinux,
		"yarn.nodemanager.linux-container-executor.path":                      program,
		"yarn.nodemanager.linux-container-executor.group":                     group.Name,
		"yarn.nodemanager.linux-container-executor.nonsecure-mode.local-user": account,
	}})
	j := startJobs(t, c)
	t.Run("in place", func(t *testing.T) {
		f := giveWay(t, j, "suspend", "suspended")
		for _, task := range must(c.Tasks(t.Context(), 0))(t) {
			if task.User != account {
				t.Errorf("%s is run by %s, want %s", task.Id, task.User, account)
			}
		}
		f.over(t)
	})
	t.Run("too much memory", func(t *testing.T) { tooMuchMemory(t, j) })
	t.Run("killed while suspended", func(t *testing.T) { killSuspended(t, j) })
	t.Run("daemons are killed", func(t *testing.T) {
		f := giveWay(t, j, "daemons", "suspended")
		err := errors.Join(c.KillNode(0), c.KillNM(0), c.StartNode(within(t, patience), 0), c.StartNM(within(t, patience), 0))
		if err != nil {
			t.Fatal(err)
		}
		f.over(t)
	})
	t.Run("checkpointed", func(t *testing.T) { checkpointOfUser(t, j, account) })
}
