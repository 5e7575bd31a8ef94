package replica

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"headrace/config/hadoop"
)

// dirsProperty is where a data node is told its volumes.
const dirsProperty = "dfs.datanode.data.dir"

// Configured returns the directories that an hdfs-site.xml gives a data node. The
// core-site.xml beside it is read, too, if there is one, for the variables.
func Configured(site string) ([]string, error) {
	core := filepath.Join(filepath.Dir(site), "core-site.xml")
	conf, err := hadoop.Read(core, site)
	if errors.Is(err, fs.ErrNotExist) {
		conf, err = hadoop.Read(site)
	}
	if err != nil {
		return nil, err
	}
	value, ok, err := conf.Get(dirsProperty)
	if err == nil && !ok {
		if value, ok, err = conf.Get("hadoop.tmp.dir"); ok {
			value += "/dfs/data" // as hdfs-default.xml says
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w; give the directories themselves", site, err)
	case !ok:
		return nil, fmt.Errorf("%s does not say %s: it is not that of a data node; give another, or the directories themselves", site, dirsProperty)
	}
	dirs, err := ParseDirs(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", site, err)
	}
	return dirs, nil
}

// storage matches a volume with its type, such as [SSD]file:///data1.
var storage = regexp.MustCompile(`^\[(\w*)\](.+)$`)

// ParseDirs reads directories as dfs.datanode.data.dir has them: with commas between
// them, each a path or a file: URI, after the [TYPE] of its storage if that is said.
// Provided storage, which has no directory, is left out.
func ParseDirs(value string) ([]string, error) {
	var dirs []string
	for text := range strings.SplitSeq(value, ",") {
		text = strings.TrimSpace(text)
		dir := text
		if m := storage.FindStringSubmatch(text); m != nil {
			if strings.EqualFold(m[1], "PROVIDED") {
				continue
			}
			dir = strings.TrimSpace(m[2])
		}
		if dir == "" {
			continue
		}
		if uri, ok := strings.CutPrefix(dir, "file:"); ok {
			if host, ok := strings.CutPrefix(uri, "//"); ok {
				uri = host[max(0, strings.IndexByte(host, '/')):]
			}
			dir = uri // Hadoop takes % for itself in a path
		}
		dir = filepath.Clean(dir)
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("%s: %q is no absolute directory of this machine", dirsProperty, text)
		}
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("%s: %q names no directory", dirsProperty, value)
	}
	return dirs, nil
}
