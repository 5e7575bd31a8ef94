package settings

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"headrace/cli"
	"headrace/config"
	"headrace/internal/accounts"
	"headrace/limits"
	"headrace/report"
)

// defaultConfig is read by a daemon of root's if it is there. A variable for tests.
var defaultConfig = "/etc/headrace/headrace.conf"

// Flags say where the settings of a daemon come from.
type Flags struct {
	// Check: the daemon only says what is wrong with them, else what would be in force (Tables).
	Check bool

	path   string
	limits []string
}

// Define adds the flags to a daemon's.
func (f *Flags) Define(flags *pflag.FlagSet) {
	flags.StringVar(&f.path, "config", "", "the `FILE` with settings and limits; flags count before it; empty: none (default for root "+defaultConfig+")")
	flags.BoolVar(&f.Check, "check-config", false, "say what is wrong with the file, else what would be in force, and end")
	flags.StringArrayVar(&f.limits, "limit", nil, "a `LIMIT` of what users may take: KEY=VALUE, user:NAME:KEY=VALUE or group:NAME:KEY=VALUE; may be repeated ("+strings.Join(limits.Names(), ", ")+")")
}

// Settings are what a daemon is told by its flags and its file. Before Keep they are used by one goroutine, after it
// only Limits are.
type Settings struct {
	// Limits are those of users. Keep brings them up to date.
	Limits *limits.Source

	flags *pflag.FlagSet
	own   *Flags
	path  string // empty: no file
	known []string
	from  map[string]string // where the value of a flag is from
	// unknown are about limits of names that nobody knows.
	unknown []error
}

// Load reads the file and sets those of the flags that were not given. known are the flags that may be in the file.
// The error names all that is wrong with it.
func Load(flags *pflag.FlagSet, own *Flags, known []string) (*Settings, error) {
	s := &Settings{flags: flags, own: own, known: known, from: map[string]string{}}
	s.path = own.path
	if s.byDefault() {
		s.path = defaultFile()
	}
	if err := own.checksNothing(flags.Changed("config"), os.Geteuid()); err != nil {
		return nil, err
	}
	flags.Visit(func(f *pflag.Flag) { s.from[f.Name] = "flag" })
	file, unreadable := s.read()
	wrong := s.set(file)
	table, unknown, limitsWrong := s.table(file)
	if own.Check { // a daemon starts all the same: the service that knows them may be down
		limitsWrong = errors.Join(limitsWrong, errors.Join(unknown...))
	}
	if err := errors.Join(unreadable, wrong, limitsWrong); err != nil {
		return nil, err
	}
	s.Limits, s.unknown = limits.NewSource(table), unknown
	return s, nil
}

// checksNothing is an error where somebody asks whether the settings are right who has not root's by default: what root's
// daemon reads would be said to be right without a look.
func (f *Flags) checksNothing(given bool, euid int) error {
	if !f.Check || given || euid == 0 || defaultFile() == "" {
		return nil
	}
	return cli.UsageErrorf("root's daemon reads %[1]s: check it with sudo, or with --config %[1]s; --config '' checks the flags alone", defaultConfig)
}

// byDefault reports whether the daemon reads the default file, if there is one.
func (s *Settings) byDefault() bool { return !s.flags.Changed("config") && os.Geteuid() == 0 }

// defaultFile returns the path of the default file; empty: there is none.
func defaultFile() string {
	if _, err := os.Stat(defaultConfig); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return defaultConfig
}

// read returns the file, nil without one; with an error about its form it is what can
// be read of it. A file that others than its reader and root
// can change is refused: it says what programs root runs.
func (s *Settings) read() (*config.File, error) {
	if s.path == "" {
		return nil, nil
	}
	f, err := os.Open(s.path)
	if err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no ordinary file", s.path)
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != 0 && st.Uid != uint32(os.Geteuid()) || st.Mode&0o022 != 0 {
		return nil, fmt.Errorf("%s can be changed by others: chown it to the daemon's user and chmod go-w it", s.path)
	}
	file, err := config.Parse(s.path, f)
	if file == nil {
		return nil, err
	}
	return file, errors.Join(err, file.Repeated("store", "new-store", "dfs-disk", "dfs-new-disk", "dfs-join"), s.checkSections(file))
}

func (s *Settings) checkSections(file *config.File) error {
	var wrong []error
	for _, section := range file.Sections {
		if section.Name != "daemon" && !limits.IsSection(section.Name) {
			wrong = append(wrong, file.Errorf(section.Line,
				"[%s] is unknown; there are [daemon], [limits], [limits user NAME] and [limits group NAME]", section.Name))
		}
	}
	return errors.Join(wrong...)
}

// set gives flags that were not given the values of the file.
func (s *Settings) set(file *config.File) error {
	var wrong []error
	for _, e := range daemonEntries(file) {
		flag := s.flags.Lookup(e.Key)
		if flag == nil || !slices.Contains(s.known, e.Key) {
			wrong = append(wrong, file.Errorf(e.Line, "%w", config.Unknown(e.Key, s.known)))
			continue
		}
		if s.from[e.Key] == "flag" {
			continue
		}
		value := e.Value
		if flag.Value.Type() == "bool" {
			on, err := config.Bool(value)
			if err != nil {
				wrong = append(wrong, file.Errorf(e.Line, "%s = %s: %w", e.Key, e.Value, err))
				continue
			}
			value = fmt.Sprint(on)
		}
		if err := flag.Value.Set(value); err != nil {
			wrong = append(wrong, file.Errorf(e.Line, "%s = %s: %w", e.Key, e.Value, err))
			continue
		}
		flag.Changed = true // who asks whether it was given means here, too
		s.from[e.Key] = fmt.Sprintf("%s:%d", file.Name, e.Line)
	}
	return errors.Join(wrong...)
}

func daemonEntries(file *config.File) []config.Entry {
	if file == nil {
		return nil
	}
	for _, section := range file.Sections {
		if section.Name == "daemon" {
			return section.Entries
		}
	}
	return nil
}

// Blame adds to an error about a setting of the file where that is.
func (s *Settings) Blame(err error) error {
	if err == nil {
		return nil
	}
	text, blamed := err.Error(), ""
	for name := range s.from { // --dfs is the beginning of --dfs-listen
		if (strings.Contains(text, "--"+name) || strings.HasPrefix(text, name+" ")) && len(name) > len(blamed) {
			blamed = name
		}
	}
	if from := s.from[blamed]; blamed != "" && from != "flag" {
		return fmt.Errorf("%s: %w", from, err)
	}
	return err
}

func (s *Settings) table(file *config.File) (*limits.Table, []error, error) {
	where := s.path
	if where == "" {
		where = defaultConfig
	}
	return limits.Read(file, where, s.own.limits, accounts.Here)
}

// reload puts the limits of the file in force, if nothing is wrong with it, and
// says what was done. Settings stay as they are.
func (s *Settings) reload(log *slog.Logger) {
	if s.path == "" { // it may have been made since
		s.path = defaultFile()
	}
	if s.path == "" {
		log.Info("there are no limits to be read again: " + defaultConfig + " is not there")
		return
	}
	file, unreadable := s.read()
	table, unknown, wrong := s.table(file)
	if err := errors.Join(unreadable, s.checkKeys(file), wrong); err != nil {
		log.Error("the limits stay as they are: the file cannot be used", "err", err)
		return
	}
	s.Limits.Replace(table)
	s.unknown = unknown
	s.sayUnknown(log)
	log.Info("limits were read again; other settings count when the daemon is started again", "file", s.path)
}

func (s *Settings) checkKeys(file *config.File) error {
	var wrong []error
	for _, e := range daemonEntries(file) {
		if !slices.Contains(s.known, e.Key) {
			wrong = append(wrong, file.Errorf(e.Line, "%w", config.Unknown(e.Key, s.known)))
		}
	}
	return errors.Join(wrong...)
}

// askAgain is how often names in the limits are looked up again that nobody knows.
const askAgain = time.Minute

// sayUnknown logs the names in the limits that nobody knows.
func (s *Settings) sayUnknown(log *slog.Logger) {
	for _, err := range s.unknown {
		log.Error("limits are of a name that nobody knows; until somebody does, what they forbid counts for all who may be meant, and what they allow for nobody", "err", err)
	}
}

// resolve looks names in the limits up again that nobody knew.
func (s *Settings) resolve(log *slog.Logger, db limits.Accounts) {
	before := len(s.unknown)
	if before == 0 {
		return
	}
	table, unknown := s.Limits.Now().Resolve(db)
	if s.unknown = unknown; len(unknown) == before {
		return
	}
	s.Limits.Replace(table)
	log.Info("names in the limits are known by now, and their limits hold", "names", before-len(unknown), "unknown", len(unknown))
	s.sayUnknown(log)
}

// Keep logs names in the limits that nobody knows, and looks them up again, and reads the
// limits again on every SIGHUP, until ctx ends. Where no file is to be
// read a SIGHUP ends the program. It returns at once.
func (s *Settings) Keep(ctx context.Context, log *slog.Logger) {
	s.sayUnknown(log)
	hangups := make(chan os.Signal, 1)
	if s.path != "" || s.byDefault() {
		cli.ReloadsOnHangup()
		signal.Notify(hangups, syscall.SIGHUP)
	}
	go func() {
		defer signal.Stop(hangups)
		again := time.NewTicker(askAgain)
		defer again.Stop()
		for {
			select {
			case <-hangups:
				s.reload(log)
			case <-again.C:
				s.resolve(log, accounts.Here)
			case <-ctx.Done():
				return
			}
		}
	}()
}

var usageDefault = regexp.MustCompile(`\(default:? ([^()]*)\)`)

// Tables show what is in force, and where it is from.
func (s *Settings) Tables() []*report.Table {
	where := s.path
	if where == "" {
		where = "no file"
	} else if abs, err := filepath.Abs(where); err == nil {
		where = abs
	}
	t := &report.Table{Title: where + ": nothing is wrong", Columns: []report.Column{{Title: "setting"}, {Title: "value", Flex: true}, {Title: "from"}}}
	for _, name := range s.known {
		flag := s.flags.Lookup(name)
		value, from := flag.Value.String(), s.from[name]
		if from == "" && strings.HasPrefix(name, "dfs") {
			continue // they count only when there is such a node
		}
		if from == "" {
			from = "default"
			if m := usageDefault.FindStringSubmatch(flag.Usage); m != nil {
				value = m[1]
			}
		}
		t.Add(report.Str(name), report.Str(value), report.Str(from))
	}
	rows := s.Limits.Now().Rows()
	l := &report.Table{}
	for _, name := range rows[0] {
		l.Columns = append(l.Columns, report.Column{Title: name})
	}
	for _, row := range rows[1:] {
		cells := make([]report.Cell, len(row))
		for i, c := range row {
			cells[i] = report.Str(c)
		}
		l.Add(cells...)
	}
	return []*report.Table{t, l}
}
