package yarn

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Launch is what a scheduler starts in a container.
type Launch struct {
	// App is the application's id. It is part of the key: a checkpoint is never
	// given to another application.
	App  string
	User string
	Argv []string
	Env  []string
	// Resources are the files that the scheduler has put into the working directory;
	// see Resources.
	Resources []Resource
}

// Command is a launch as it can be compared with another: without what differs from
// one container to the next.
type Command struct {
	Argv      []string   `json:"argv,omitempty"`
	Env       []string   `json:"env,omitempty"`
	Resources []Resource `json:"resources,omitempty"`
}

// perContainer are the variables that YARN sets for each container, attempt or
// machine, and those that a shell and Headrace set. YARN_SHELL_ID is
// DistributedShell's count of the containers that it was ever given: a relaunch has
// a new one.
var perContainer = []string{
	"CONTAINER_ID", "NM_HOST", "NM_PORT", "NM_HTTP_PORT", "LOCAL_DIRS", "LOCAL_USER_DIRS", "LOG_DIRS", "PWD", "OLDPWD",
	"HADOOP_TOKEN_FILE_LOCATION", "KEYSTORE_FILE_LOCATION", "KEYSTORE_PASSWORD", "TRUSTSTORE_FILE_LOCATION", "TRUSTSTORE_PASSWORD",
	"PRELAUNCH_OUT", "PRELAUNCH_ERR", "LOCALIZATION_COUNTERS", "JVM_PID", "YARN_SHELL_ID", "SHLVL", "_",
	"YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_HOSTNAME",
}

// perContainerPrefixes begin the names of more of them.
var perContainerPrefixes = []string{"NM_AUX_SERVICE_", "HEADRACE_", "BASH_FUNC_"}

func dropped(name string) bool {
	return slices.Contains(perContainer, name) ||
		slices.ContainsFunc(perContainerPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// Key names what a launch and its relaunch have in common: application, user,
// command, environment and resources, but not container, attempt, machine,
// directories, ports and tokens. Launches that differ in anything else have
// different keys; then a relaunch starts afresh, which is slower and never wrong.
//
// Several containers of one application may have the same key, those of
// DistributedShell always have. Then each may be given the checkpoint of any other:
// one of each is restored once, so that in the end all of them have been run, unless one that
// could have had one starts from the beginning. Then one is left: nobody can tell whose.
func (l Launch) Key() string {
	c := l.Command()
	b, err := json.Marshal(struct {
		Version   int
		App, User string
		Command
	}{1, l.App, l.User, c})
	if err != nil {
		panic(err) // there is nothing in it that JSON cannot write
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Command returns the launch without what differs between containers.
func (l Launch) Command() Command {
	n := newNormalizer(l)
	c := Command{Resources: slices.Clone(l.Resources)}
	for _, a := range l.Argv {
		c.Argv = append(c.Argv, n.apply(a))
	}
	vars := make(map[string]string)
	for _, kv := range l.Env {
		name, value, ok := strings.Cut(kv, "=")
		if ok && !dropped(name) {
			vars[name] = n.apply(value)
		}
	}
	for name, value := range vars {
		c.Env = append(c.Env, name+"="+value)
	}
	slices.Sort(c.Env)
	slices.SortFunc(c.Resources, func(a, b Resource) int { return strings.Compare(a.Name, b.Name) })
	return c
}

// A normalizer replaces what a text says of its container.
type normalizer struct {
	from []string // the longest first
	to   map[string]string
	app  *regexp.Regexp // containers and attempts of the application
}

// localized is the number that a NodeManager gives a file that it has fetched.
var localized = regexp.MustCompile(`/filecache(/\d+)+/`)

func newNormalizer(l Launch) *normalizer {
	n := &normalizer{to: make(map[string]string)}
	env := make(map[string]string)
	for _, kv := range l.Env {
		if name, value, ok := strings.Cut(kv, "="); ok {
			env[name] = value
		}
	}
	for _, d := range []struct{ variable, placeholder string }{
		{"LOCAL_USER_DIRS", "{LOCAL_USER_DIR}"}, {"LOCAL_DIRS", "{LOCAL_DIR}"}, {"LOG_DIRS", "{LOG_DIR}"},
		{"PWD", "{PWD}"}, {"HADOOP_TOKEN_FILE_LOCATION", "{TOKENS}"},
	} {
		for _, dir := range strings.Split(env[d.variable], ",") {
			n.replace(dir, d.placeholder)
			if top, _, ok := strings.Cut(dir, "/usercache/"); ok {
				n.replace(top, "{NM_LOCAL_DIR}")
			}
		}
	}
	n.replace(env["CONTAINER_ID"], "{CONTAINER}")
	slices.SortFunc(n.from, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	if id, ok := strings.CutPrefix(l.App, "application_"); ok && id != "" {
		n.app = regexp.MustCompile(`(container_(e\d+_)?` + regexp.QuoteMeta(id) + `_\d+_\d+|appattempt_` + regexp.QuoteMeta(id) + `_\d+)`)
	}
	return n
}

// replace leaves alone what is too short to mean what it stands for.
func (n *normalizer) replace(text, placeholder string) {
	if strings.HasPrefix(text, "/") {
		text = path.Clean(text)
	}
	if len(text) < 4 {
		return
	}
	if _, twice := n.to[text]; !twice {
		n.from = append(n.from, text)
	}
	n.to[text] = placeholder
}

func (n *normalizer) apply(s string) string {
	for _, from := range n.from {
		s = strings.ReplaceAll(s, from, n.to[from])
	}
	if n.app != nil {
		s = n.app.ReplaceAllStringFunc(s, func(id string) string {
			if strings.HasPrefix(id, "appattempt") {
				return "{ATTEMPT}"
			}
			return "{CONTAINER}"
		})
	}
	return localized.ReplaceAllString(s, "/filecache/{N}/")
}

// Roots returns the directories of an application's containers on this machine:
// what they write there is carried along. They exist on every machine that runs a
// container of the application, if the NodeManagers have the same directories.
func (l Launch) Roots() []string {
	roots := slices.Concat(l.Dirs())
	slices.Sort(roots)
	return slices.Compact(roots)
}

// Dirs returns the directories of an application on this machine, in each of which YARN makes one for each container,
// with its name: on the disks for files, and on those for logs.
func (l Launch) Dirs() (local, logs []string) {
	for _, kv := range l.Env {
		name, value, _ := strings.Cut(kv, "=")
		for _, dir := range strings.Split(value, ",") {
			if !path.IsAbs(dir) {
				continue
			}
			switch name {
			case "LOCAL_DIRS": // LOCAL/usercache/USER/appcache/APP
				local = append(local, path.Clean(dir))
			case "LOG_DIRS": // LOGS/APP/CONTAINER
				logs = append(logs, path.Dir(path.Clean(dir)))
			}
		}
	}
	return local, logs
}
