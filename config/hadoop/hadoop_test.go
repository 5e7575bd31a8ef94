package hadoop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write makes files in a directory and returns their paths, in the same order.
func write(t testing.TB, namesAndTexts ...string) (paths []string) {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(namesAndTexts); i += 2 {
		path := filepath.Join(dir, namesAndTexts[i])
		if err := os.WriteFile(path, []byte(namesAndTexts[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

const head = `<?xml version="1.0" encoding="UTF-8"?>
<?xml-stylesheet type="text/xsl" href="configuration.xsl"?>
<!-- Licensed to nobody -->
`

func TestRead(t *testing.T) {
	paths := write(t, "core-site.xml", head+`<configuration xmlns:xi="http://www.w3.org/2001/XInclude">
  <property><name>tmp</name><value>/var/tmp</value></property>
  <property><name> fixed </name><value>first</value><final>true</final></property>
  <property><name>fixed</name><value>second</value></property>
  <property><name>twice</name><value>first</value></property>
  <property><name>comment</name><value>a<!-- not this -->b &amp; <![CDATA[<c>]]></value><description>of it</description></property>
  <property name="short" value="1" final="true"/>
  <property><name>none</name></property>
  <property><value>nameless</value></property>
  <property><name>empty</name><value></value></property>
  <xi:include href="more.xml"/>
  <xi:include href="missing.xml"><xi:fallback><property><name>instead</name><value>yes</value></property></xi:fallback></xi:include>
</configuration>`,
		"hdfs-site.xml", `<configuration>
  <property><name>twice</name><value>second</value></property>
  <property><name>fixed</name><value>third</value></property>
  <property><name>short</name><value>2</value></property>
  <property><name>dirs</name><value>
     [SSD]file://${tmp}/a,
     ${sub}/b</value></property>
  <property><name>sub</name><value>${tmp}/sub</value></property>
  <property><name>open</name><value>a${b</value></property>
  <property><name>user</name><value>${user.name}</value></property>
  <property><name>self</name><value>x${other}</value></property>
  <property><name>other</name><value>${self}</value></property>
  <configuration><property><name>inner</name><value>1</value></property></configuration>
</configuration>`,
		"more.xml", `<configuration><property><name>included</name><value>${tmp}</value></property></configuration>`)
	c, err := Read(paths[:2]...)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"tmp": "/var/tmp", "fixed": "first", "twice": "second", "comment": "ab & <c>", "short": "1", "empty": "",
		"included": "/var/tmp", "instead": "yes", "inner": "1", "open": "a${b",
		"dirs": "\n     [SSD]file:///var/tmp/a,\n     /var/tmp/sub/b",
	} {
		if got, ok, err := c.Get(name); got != want || !ok || err != nil {
			t.Errorf("%s: %q, %v, %v; want %q", name, got, ok, err, want)
		}
	}
	for _, name := range []string{"none", "", "nobody"} {
		if got, ok, err := c.Get(name); ok || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{"user": "user.name", "self": "stands for itself"} {
		if got, _, err := c.Get(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want an error about %s", name, got, err, want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for what, c := range map[string]struct{ text, want string }{
		"no XML":              {"[daemon]\n", "EOF"},
		"cut":                 {"<configuration><property><name>a", "syntax error"},
		"other XML":           {"<project/>", "<project>"},
		"includes itself":     {`<configuration><include href="x.xml"/></configuration>`, "include each other"},
		"includes nothing":    {`<configuration><include href="missing.xml"/></configuration>`, "missing.xml"},
		"includes of the net": {`<configuration><include href="http://127.0.0.1/x.xml"/></configuration>`, "this machine"},
		"long":                {"<configuration>" + strings.Repeat(" ", maxFile), "longer than"},
		"an entity":           {`<!DOCTYPE c [<!ENTITY a SYSTEM "/etc/passwd">]><configuration><property><name>a</name><value>&a;</value></property></configuration>`, "entity"},
	} {
		if _, err := Read(write(t, "x.xml", c.text)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want an error about %q", what, err, c.want)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "x.xml")); !os.IsNotExist(err) {
		t.Errorf("a file that is missing: %v", err)
	}
}

// FuzzRead: whatever a file holds, reading it ends, and no value grows without bound.
func FuzzRead(f *testing.F) {
	f.Add(head + `<configuration><property><name>a</name><value>${b}${b}</value></property><property><name>b</name><value>${a}</value></property></configuration>`)
	f.Add(`<configuration><property name="a" value="1"/><include href="x"/></configuration>`)
	f.Fuzz(func(t *testing.T, text string) {
		root, err := parse(strings.NewReader(text))
		if err != nil {
			return
		}
		c := &Config{map[string]string{}, map[string]bool{}}
		c.take(root, t.TempDir(), maxIncludes) // which may include nothing
		for name := range c.values {
			if got, _, err := c.Get(name); err == nil && len(got) > (maxVariables+1)*len(text) {
				t.Errorf("%s has %d bytes, of a file of %d", name, len(got), len(text))
			}
		}
	})
}
