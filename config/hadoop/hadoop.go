package hadoop

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Config is what files say. Values are as they stand there, with variables.
type Config struct {
	values map[string]string
	final  map[string]bool
}

const (
	maxFile      = 1 << 20 // bytes
	maxIncludes  = 20      // files inside each other
	maxVariables = 100     // in one value, with those in what they stand for
)

// Read reads files, one after the other.
func Read(files ...string) (*Config, error) {
	c := &Config{map[string]string{}, map[string]bool{}}
	for _, f := range files {
		if err := c.read(f, 0); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Config) read(file string, depth int) error {
	if depth > maxIncludes {
		return fmt.Errorf("%s: files include each other, more than %d deep", file, maxIncludes)
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	root, err := parse(f)
	if err == nil {
		err = c.take(root, filepath.Dir(file), depth)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// element is one of a file. Its name space is left out: Hadoop knows none but that of
// include.
type element struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Children []element  `xml:",any"`
	Text     string     `xml:",chardata"`
}

func parse(r io.Reader) (element, error) {
	var root element
	limited := &io.LimitedReader{R: r, N: maxFile}
	d := xml.NewDecoder(limited)
	if err := d.Decode(&root); err != nil {
		if limited.N == 0 {
			err = fmt.Errorf("it is longer than %d bytes", maxFile)
		}
		return root, err
	}
	if root.XMLName.Local != "configuration" {
		return root, fmt.Errorf("its outermost element is <%s>, not <configuration>: it is no configuration of Hadoop", root.XMLName.Local)
	}
	return root, nil
}

// attr returns an attribute or the text of a child, whichever is there, and whether.
func (e element) attr(name string) (value string, ok bool) {
	for _, a := range e.Attrs {
		if a.Name.Local == name {
			value, ok = a.Value, true
		}
	}
	for _, c := range e.Children {
		if c.XMLName.Local == name {
			value, ok = c.Text, true
		}
	}
	return value, ok
}

func (c *Config) take(e element, dir string, depth int) error {
	for _, child := range e.Children {
		var err error
		switch child.XMLName.Local {
		case "configuration":
			err = c.take(child, dir, depth)
		case "include":
			err = c.include(child, dir, depth)
		case "property":
			c.property(child)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) property(e element) {
	name, _ := e.attr("name")
	value, ok := e.attr("value")
	if name = strings.TrimSpace(name); name == "" || !ok || c.final[name] {
		return
	}
	final, _ := e.attr("final")
	c.values[name] = value
	c.final[name] = strings.TrimSpace(final) == "true"
}

// include reads a file that another one includes; its fallback is what holds if there is
// no such file.
func (c *Config) include(e element, dir string, depth int) error {
	href, _ := e.attr("href")
	path := strings.TrimPrefix(strings.TrimPrefix(href, "file:"), "//")
	if href == "" || strings.Contains(path, "://") {
		return fmt.Errorf("it includes %q; only files of this machine can be", href)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	err := c.read(path, depth+1)
	if errors.Is(err, os.ErrNotExist) {
		for _, child := range e.Children {
			if child.XMLName.Local == "fallback" {
				return c.take(child, dir, depth)
			}
		}
	}
	return err
}

// Get returns the value of a property with all variables replaced, and whether it has one.
func (c *Config) Get(name string) (value string, ok bool, err error) {
	if value, ok = c.values[name]; !ok {
		return "", false, nil
	}
	left := maxVariables
	value, err = c.expand(value, &left)
	if err != nil {
		return "", true, fmt.Errorf("%s: %w", name, err)
	}
	return value, true, nil
}

// expand replaces the variables of a value, as many as are left.
func (c *Config) expand(value string, left *int) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(value, "${")
		out.WriteString(before)
		name, after, closed := strings.Cut(rest, "}")
		if !found || !closed {
			return out.String() + value[len(before):], nil
		}
		inner, known := c.values[name]
		if !known {
			return "", fmt.Errorf("it has ${%s}, which no file says and only Hadoop's daemon knows", name)
		}
		if *left--; *left < 0 {
			return "", fmt.Errorf("it has more than %d variables, or one that stands for itself", maxVariables)
		}
		text, err := c.expand(inner, left)
		if err != nil {
			return "", err
		}
		out.WriteString(text)
		value = after
	}
}
