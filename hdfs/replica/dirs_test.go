package replica

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseDirs(t *testing.T) {
	for value, want := range map[string][]string{
		"/data":                         {"/data"},
		" /data1 ,\n\t/data2/,/data1":   {"/data1", "/data2"},
		"file:///data":                  {"/data"},
		"file:/data":                    {"/data"},
		"file://localhost/data":         {"/data"},
		"[SSD]file:///a b,[disk] /c":    {"/a b", "/c"},
		"[RAM_DISK]/mnt/ram,[NVDIMM]/n": {"/mnt/ram", "/n"},
		"[ARCHIVE]file:///a%20b":        {"/a%20b"},
		"[]/data":                       {"/data"},
		"[PROVIDED]hdfs://other/,/data": {"/data"},
		"/data,,":                       {"/data"},
		"file:///data/../x":             {"/x"},
		"":                              nil,
		",":                             nil,
		"[PROVIDED]s3a://bucket/":       nil,
		"data":                          nil,
		"hdfs://other/data":             nil,
		"file://data":                   nil,
		"[SSD/data":                     nil,
		"C:\\data":                      nil,
	} {
		got, err := ParseDirs(value)
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: %q, %v; want %q", value, got, err, want)
		}
	}
}

func TestConfigured(t *testing.T) {
	dir := t.TempDir()
	site := filepath.Join(dir, "hdfs-site.xml")
	write := func(name, property, value string) {
		t.Helper()
		text := "<configuration><property><name>" + property + "</name><value>" + value + "</value></property></configuration>"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := func(dirs ...string) {
		t.Helper()
		if got, err := Configured(site); err != nil || !slices.Equal(got, dirs) {
			t.Errorf("%q, %v; want %q", got, err, dirs)
		}
	}
	refused := func(words string) {
		t.Helper()
		if got, err := Configured(site); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q, %v; want an error about %q", got, err, words)
		}
	}
	refused("no such file")
	write("hdfs-site.xml", dirsProperty, "/a,${hadoop.tmp.dir}/b")
	refused("hadoop.tmp.dir")
	write("core-site.xml", "hadoop.tmp.dir", "/tmp/h")
	want("/a", "/tmp/h/b")
	write("hdfs-site.xml", "dfs.replication", "2")
	want("/tmp/h/dfs/data")
	write("core-site.xml", "hadoop.tmp.dir", "/tmp/h-${user.name}")
	refused("give the directories themselves")
	write("core-site.xml", "fs.defaultFS", "hdfs://n")
	refused("not that of a data node")
	write("hdfs-site.xml", dirsProperty, "here")
	refused("no absolute directory")
}

func TestReadVersion(t *testing.T) {
	for text, want := range map[string]layout{
		version(testPool, -57): layout32,
		version(testPool, -56): layout256,
		"blockpoolID = " + testPool + "\r\n layoutVersion= -57 \r\n":    layout32,
		"blockpoolID=BP-1-127.0.0.1-17000000\\u0030\nlayoutVersion=-57": 0,
		version("BP-2", -57):              0,
		version(testPool, -63):            0,
		"":                                0,
		"blockpoolID=" + testPool + "\n":  0,
		strings.Repeat("x", maxVersion+1): 0,
	} {
		got, err := readVersion(strings.NewReader(text), testPool)
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("%.100q: %d, %v; want %d", text, got, err, want)
		}
	}
}

func TestSubdir(t *testing.T) {
	for _, c := range []struct {
		layout layout
		number int64
		want   string
	}{
		{layout32, 1073741825, "subdir0/subdir0"}, // the first of a new name node
		{layout32, 1073741825 + 256*33, "subdir0/subdir1"},
		{layout32, 0x1fffff, "subdir31/subdir31"},
		{layout256, 0x1fffff, "subdir31/subdir255"},
		{layout256, 0xffffff, "subdir255/subdir255"},
		{layout32, -1, "subdir31/subdir31"},
		{layout256, -256, "subdir255/subdir255"},
	} {
		if got := c.layout.subdir(c.number); got != c.want {
			t.Errorf("block %d in layout %d: %s, want %s", c.number, c.layout, got, c.want)
		}
	}
}

func TestGeneration(t *testing.T) {
	for name, want := range map[string]int64{
		"blk_7_1001.meta": 1001, "blk_7_0.meta": 0,
		"blk_7": -1, "blk_7_1001": -1, "blk_7_.meta": -1, "blk_7_+1.meta": -1, "blk_7_01.meta": -1, "blk_7_1.meta.tmp": -1,
		"blk_71_1001.meta": -1, "blk_7_1_2.meta": -1, "blk_-7_1.meta": -1, "blk_7_99999999999999999999.meta": -1,
	} {
		got, ok := generation(name, 7)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%s: %d, %v; want %d", name, got, ok, want)
		}
	}
}

// FuzzDirs: what ParseDirs takes, Open takes, and it stays the same when written out.
func FuzzDirs(f *testing.F) {
	f.Add("[SSD]file:///a,/b")
	f.Add("file://x/../y,[PROVIDED]z")
	f.Fuzz(func(t *testing.T, value string) {
		dirs, err := ParseDirs(value)
		if err != nil {
			return
		}
		if _, err := Open(dirs); err != nil {
			t.Error(err)
		}
		for _, d := range dirs {
			if strings.TrimSpace(d) != d || strings.Contains(d, "\n") {
				continue
			}
			if again, err := ParseDirs("[DISK]file://" + d); err != nil || !slices.Equal(again, []string{d}) {
				t.Errorf("%q: %q, %v", d, again, err)
			}
		}
	})
}

// FuzzVersion: a layout comes only from a file that says it.
func FuzzVersion(f *testing.F) {
	f.Add([]byte(version(testPool, -57)))
	f.Add([]byte(version("BP-2", -56)))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := readVersion(bytes.NewReader(text), testPool)
		if err == nil && !(l == layout32 && bytes.Contains(text, []byte("57")) || l == layout256 && bytes.Contains(text, []byte("56"))) {
			t.Errorf("layout %d of %q", l, text)
		}
	})
}

// FuzzGeneration: a name and what it is read as are the same thing.
func FuzzGeneration(f *testing.F) {
	f.Add("blk_7_1001.meta", int64(7))
	f.Add("blk_-7_-1.meta", int64(-7))
	f.Fuzz(func(t *testing.T, name string, number int64) {
		if g, ok := generation(name, number); ok && metaName(number, g) != name {
			t.Errorf("%q is generation %d of %d", name, g, number)
		}
		if g, ok := generation(metaName(number, int64(len(name))), number); !ok || g != int64(len(name)) {
			t.Errorf("generation %d of %d is read as %d, %v", len(name), number, g, ok)
		}
	})
}
