package headrace_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

const (
	mostMethods = 40
	mostFields  = 30
)

// tooLarge are types that are several rooms in one. They may only become smaller.
var tooLarge = map[string]struct{ methods, fields int }{
	"lab/yarn.Cluster": {methods: 76},
}

// TestTypesAreSmall: a type with very many methods or fields is rooms that are missing.
func TestTypesAreSmall(t *testing.T) {
	methods, fields := map[string]int{}, map[string]int{}
	for _, p := range listPackages(t) {
		dir, _ := rel(p.ImportPath)
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if ast.IsGenerated(f) {
				continue
			}
			for _, d := range f.Decls {
				count(d, dir, methods, fields)
			}
		}
	}
	for name, allowed := range tooLarge {
		if m, f := methods[name], fields[name]; m <= mostMethods && f <= mostFields {
			t.Errorf("%s is small by now, with %d methods and %d fields: take it out of tooLarge", name, m, f)
		} else if m < allowed.methods || allowed.fields > mostFields && f < allowed.fields {
			t.Errorf("%s has %d methods and %d fields by now: say so in tooLarge", name, m, f)
		}
	}
	for name, n := range methods {
		if n > max(mostMethods, tooLarge[name].methods) {
			t.Errorf("%s has %d methods, more than %d: which of them are a type, or a package, of their own?", name, n, mostMethods)
		}
	}
	for name, n := range fields {
		if n > max(mostFields, tooLarge[name].fields) {
			t.Errorf("%s has %d fields, more than %d: which of them belong together?", name, n, mostFields)
		}
	}
}

// count enters what a declaration adds to a type of the package at dir.
func count(d ast.Decl, dir string, methods, fields map[string]int) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return
		}
		of := d.Recv.List[0].Type
		if p, ok := of.(*ast.StarExpr); ok {
			of = p.X
		}
		switch g := of.(type) {
		case *ast.IndexExpr:
			of = g.X
		case *ast.IndexListExpr:
			of = g.X
		}
		methods[dir+"."+of.(*ast.Ident).Name]++
	case *ast.GenDecl:
		for _, s := range d.Specs {
			spec, ok := s.(*ast.TypeSpec)
			if !ok {
				continue
			}
			if st, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range st.Fields.List {
					fields[dir+"."+spec.Name.Name] += max(1, len(f.Names))
				}
			}
		}
	}
}
