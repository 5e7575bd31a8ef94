package headrace_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"headrace"
)

const module = "headrace"

// layers lists the families of packages from the bottom up. A family is a
// directory with all packages below it. Imports point down; inside a layer a
// package may import only its own family.
var layers = [][]string{
	0: {".", "config", "ring", "internal/linux", "internal/accounts", "internal/accept", "internal/budget", "internal/delta", "internal/criu", "internal/crash", "internal/freeport", "internal/jars", "internal/testkit", "internal/vfs"},
	1: {"paper", "proc", "pagecache", "disk", "fileset", "tasklog", "hdfs", "engine", "meta", "quorum"},
	2: {"policy", "residency", "stream", "block", "trace", "report", "wire", "serve", "blob"},
	3: {"node", "sim", "doctor", "warm", "limits", "migrate", "dfs"},
	4: {"data", "manager"},
	5: {"solo", "cli"},
	6: {"cmd/headrace", "cmd/headrace-shim", "lab", "scripts"},
	7: {"cmd/headrace-lab"},
}

type listedPackage struct {
	ImportPath, Name, Dir                       string
	GoFiles, Imports, TestImports, XTestImports []string
}

// rel returns the directory of an import path inside the module, "." for its root,
// and false for a package of somebody else.
func rel(importPath string) (string, bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// layerOf finds the layer and the family of a package.
func layerOf(dir string) (layer int, family string, ok bool) {
	for l, families := range layers {
		for _, f := range families {
			if dir == f || strings.HasPrefix(dir, f+"/") {
				return l, f, true
			}
		}
	}
	return 0, "", false
}

// importProblem says why from must not import to, or nothing.
func importProblem(from, to string) string {
	fromLayer, fromFamily, ok := layerOf(from)
	if !ok {
		return fmt.Sprintf("package %s has no place: give it one in the layers of this test", from)
	}
	toLayer, toFamily, ok := layerOf(to)
	switch {
	case !ok:
		return fmt.Sprintf("%s imports %s, which has no place in the layers", from, to)
	case toLayer > fromLayer:
		return fmt.Sprintf("%s (layer %d) imports %s (layer %d): imports point down", from, fromLayer, to, toLayer)
	case toLayer == fromLayer && toFamily != fromFamily:
		return fmt.Sprintf("%s imports %s of the same layer (%d): declare the small interface that is needed instead", from, to, toLayer)
	}
	return ""
}

// listed asks the go command once for all tests: each time takes a second of a processor.
var listed = sync.OnceValues(func() ([]listedPackage, error) {
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Name,Dir,GoFiles,Imports,TestImports,XTestImports", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, &stderr)
	}
	var packages []listedPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listedPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
})

func listPackages(t *testing.T) []listedPackage {
	t.Helper()
	packages, err := listed()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	if len(packages) < 2 {
		t.Fatalf("go list found only %d packages", len(packages))
	}
	return packages
}

// TestArchitectureNamesPackages: who looks for a package finds it on one page. Those below
// lab/exp stand there together, and an inner one may go by its last name.
func TestArchitectureNamesPackages(t *testing.T) {
	page, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range listPackages(t) {
		dir, _ := rel(p.ImportPath)
		if strings.HasSuffix(dir, "test") || strings.HasSuffix(dir, "connect") || strings.HasPrefix(dir, "scripts/") {
			continue // for tests, generated, or not part of a program
		}
		names := []string{dir, path.Dir(dir) + "/*"}
		switch {
		case dir == ".":
			names = []string{module}
		case strings.Contains(dir, "internal/"):
			names = append(names, path.Base(dir))
		}
		if !slices.ContainsFunc(names, func(n string) bool { return bytes.Contains(page, []byte("`"+n+"`")) }) {
			t.Errorf("ARCHITECTURE.md does not say what package %s is", dir)
		}
	}
	if words := len(bytes.Fields(page)); words > 1500 {
		t.Errorf("ARCHITECTURE.md has %d words: it is to stay one page; docs/internals.md has room", words)
	}
}

func TestImportsPointDown(t *testing.T) {
	for _, p := range listPackages(t) {
		from, _ := rel(p.ImportPath)
		if _, _, ok := layerOf(from); !ok {
			t.Errorf("package %s has no place: give it one in the layers of this test", from)
			continue
		}
		imports := slices.Concat(p.Imports, p.TestImports, p.XTestImports)
		slices.Sort(imports)
		for _, i := range slices.Compact(imports) {
			if to, ours := rel(i); ours {
				if problem := importProblem(from, to); problem != "" {
					t.Error(problem)
				}
			}
		}
	}
}

// TestProductNeedsNoLab: experiments are a program of their own, which may need what
// the product must not.
func TestProductNeedsNoLab(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./cmd/headrace", "./cmd/headrace-shim").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(dep+"/", module+"/lab/") || strings.HasPrefix(dep, "github.com/hanwen/go-fuse/") {
			t.Errorf("the product links %s", dep)
		}
	}
	for _, p := range listPackages(t) {
		from, _ := rel(p.ImportPath)
		if _, family, _ := layerOf(from); family == "lab" || from == "cmd/headrace-lab" {
			continue
		}
		for _, i := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if strings.HasPrefix(i+"/", module+"/lab/") {
				t.Errorf("%s imports %s: only cmd/headrace-lab does", from, i)
			}
		}
	}
}

// TestDealingIsPure: what decides who reads what has no clock, files or goroutines.
func TestDealingIsPure(t *testing.T) {
	for _, p := range listPackages(t) {
		if dir, _ := rel(p.ImportPath); dir != "stream/deal" {
			continue
		}
		for _, i := range p.Imports {
			if slices.Contains([]string{"os", "net", "time", "sync", "context", "golang.org/x/sys/unix"}, i) {
				t.Errorf("%s imports %s", p.ImportPath, i)
			}
		}
	}
}

// labLayers are the packages of the lab from the bottom up. One imports only those before
// it; experiments know nothing of each other.
var labLayers = []string{"belong", "slowdisk", "pages", "work", "rig", "sample", "shapes", "view", "trial", "yarn", "exp", "demo", "labtest"}

func TestRoomsOfTheLab(t *testing.T) {
	room := func(dir string) (name string, n int) {
		name, ok := strings.CutPrefix(dir, "lab/")
		if !ok {
			return "", -1
		}
		first, _, _ := strings.Cut(name, "/")
		return name, slices.Index(labLayers, first)
	}
	for _, p := range listPackages(t) {
		dir, _ := rel(p.ImportPath)
		from, n := room(dir)
		if from != "" && n < 0 {
			t.Errorf("lab/%s has no place: give it one in the rooms of this test", from)
		}
		for _, i := range p.Imports {
			to, _ := rel(i)
			if name, m := room(to); from != "" && m >= n {
				t.Errorf("lab/%s imports lab/%s, which is not below it", from, name)
			} else if name == "labtest" {
				t.Errorf("%s imports lab/labtest: only tests do", dir)
			}
		}
	}
}

// TestShimIsSmall: the supervisor of every task stays in memory for as long as the task
// lives, as root, so it knows no network.
func TestShimIsSmall(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./cmd/headrace-shim").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		if slices.Contains([]string{"net/http", "crypto/tls"}, dep) {
			t.Errorf("headrace-shim links %s", dep)
		}
	}
}

func TestVocabularyNeedsNothing(t *testing.T) {
	for _, p := range listPackages(t) {
		if p.ImportPath != module {
			continue
		}
		for _, i := range p.Imports {
			if first, _, _ := strings.Cut(i, "/"); strings.Contains(first, ".") || first == module {
				t.Errorf("the root package imports %s: it holds to the standard library", i)
			}
		}
	}
}

func TestImportRule(t *testing.T) {
	cases := []struct {
		from, to string
		fine     bool
	}{
		{"policy", ".", true},
		{"proc", "proc/checkpoint", true},
		{"proc/checkpoint", "internal/criu", true},
		{"cmd/headrace", "scripts/testcount", false},
		{"internal/criu", "internal/linux", false},
		{"wire/convert", "wire", true},
		{"wire/convert", ".", true},
		{"wire/convert", "policy", false},
		{"policy", "report", false},
		{"proc", "policy", false},
		{".", "internal/linux", false},
		{"process", ".", false},
		{"policy", "elsewhere", false},
		{"proc/shim", "migrate", false},
		{"hdfs", "blob", false},
	}
	for _, c := range cases {
		if problem := importProblem(c.from, c.to); (problem == "") != c.fine {
			t.Errorf("%s imports %s: %q", c.from, c.to, problem)
		}
	}
}

// TestOperationsAreNamedOnce: the daemons know operations by their type, and their
// names only where they meet the protocol and the records.
func TestOperationsAreNamedOnce(t *testing.T) {
	for _, p := range listPackages(t) {
		if dir, _ := rel(p.ImportPath); !slices.Contains([]string{"solo", "solo/store", "solo/board", "data", "manager", "node", "policy", "wire/convert", "sim"}, dir) {
			continue
		}
		for _, name := range p.GoFiles {
			files := token.NewFileSet()
			f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					text, _ := strconv.Unquote(lit.Value)
					if o, err := headrace.ParseOperation(text); err == nil && o != headrace.Idle {
						t.Errorf("%v: %s is the name of an operation: use the type", files.Position(lit.Pos()), lit.Value)
					}
				}
				return true
			})
		}
	}
}

// bilingual are the packages that serve the protocol, with how many of their files know
// the vocabulary, too: at most. Besides, wire/convert does, which maps between the two, and
// clients do.
var bilingual = map[string]int{"data": 1, "data/blocks": 3, "manager": 9, "manager/inputs": 5, "node": 1, "solo": 6, "solo/journal": 1, "solo/request": 2}

// TestWhoKnowsTheProtocol: what decides and what acts knows the vocabulary alone.
func TestWhoKnowsTheProtocol(t *testing.T) {
	const protocol = module + "/wire"
	for _, p := range listPackages(t) {
		dir, _ := rel(p.ImportPath)
		if _, family, _ := layerOf(dir); slices.Contains([]string{"cmd/headrace", "cmd/headrace-lab", "lab", "wire"}, family) {
			continue
		}
		var both []string
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			knows := func(path string) bool {
				return slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == strconv.Quote(path) })
			}
			if knows(protocol) && knows(module) {
				both = append(both, name)
			}
		}
		if most := bilingual[dir]; len(both) > most {
			t.Errorf("%s: %v know both protocol and vocabulary, more than %d: let wire/convert map between them", dir, both, most)
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, p := range listPackages(t) {
		name := path.Base(p.ImportPath)
		if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "misc"}, name) {
			t.Errorf("package %s: name it after what it is about", p.ImportPath)
		}
		if generated(t, p) {
			continue
		}
		file := filepath.Join(p.Dir, "doc.go")
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Errorf("package %s: %v", p.ImportPath, err)
			continue
		}
		first := regexp.MustCompile(`^Package ` + p.Name + `\s`)
		if p.Name == "main" {
			first = regexp.MustCompile(`(?i)^(command )?` + regexp.QuoteMeta(name) + `\s`)
		}
		if doc := f.Doc.Text(); !first.MatchString(doc) {
			t.Errorf("%s: want a package comment that begins like %v", file, first)
		}
	}
}

// generated reports whether a program has written all of a package.
func generated(t *testing.T, p listedPackage) bool {
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Errorf("package %s: %v", p.ImportPath, err)
			return false
		}
		if !ast.IsGenerated(f) {
			return false
		}
	}
	return len(p.GoFiles) > 0
}

// machinePath matches what names one particular machine or checkout: absolute
// paths below its working directories, and neighbours of the checkout.
var machinePath = regexp.MustCompile(`(^|[^\w.-])/w[o]rk/\w|\.\./sh[a]red\b|/f[a]rm/|f[a]rm-\w`)

func TestNoPathsOfOneMachine(t *testing.T) {
	out, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		t.Skipf("this is no git checkout: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		b, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		if bytes.IndexByte(b, 0) >= 0 {
			continue
		}
		for i, line := range bytes.Split(b, []byte("\n")) {
			// Most lines have no slash, and the race detector makes expressions slow.
			if bytes.IndexByte(line, '/') < 0 && !bytes.Contains(line, []byte("arm-")) {
				continue
			}
			if m := machinePath.Find(line); m != nil {
				t.Errorf("%s:%d: %q means nothing on another machine", name, i+1, m)
			}
		}
	}
}
