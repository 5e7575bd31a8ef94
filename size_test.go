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
	for name, n := range methods {
		if n > mostMethods {
			t.Errorf("%s has %d methods, more than %d: which of them are a type, or a package, of their own?", name, n, mostMethods)
		}
	}
	for name, n := range fields {
		if n > mostFields {
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
