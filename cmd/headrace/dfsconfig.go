package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/internal/linux"
)

// defaultFS is where headrace dfs start serves unless it is told otherwise.
const defaultFS = "hdfs://127.0.0.1:8020"

func fsFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "fs", defaultFS, "the `URL` of the file system, hdfs://HOST:PORT")
}

// fsAddress returns the HOST:PORT of a file system.
func fsAddress(fs string) (string, error) {
	u, err := url.Parse(fs)
	if err != nil || u.Scheme != "hdfs" || u.Hostname() == "" || u.Port() == "" || strings.Trim(u.Path, "/") != "" {
		return "", cli.UsageErrorf("--fs %q: want hdfs://HOST:PORT, as headrace dfs start writes it", fs)
	}
	return u.Host, nil
}

func dfsConfigVerb(a dfsVerbs) *cobra.Command {
	var fs string
	cmd := &cobra.Command{
		Use:   "client-config [DIR]",
		Short: "Write the configuration of HDFS's clients; prints its directory",
		Long: `Client-config writes core-site.xml and hdfs-site.xml for Hadoop's clients, to DIR,
or else to a directory in the user's configuration, and prints its name. Files
there that it has not written are left alone, and it fails.`,
		Example: `  export HADOOP_CONF_DIR=$(headrace dfs client-config)
  headrace dfs client-config --fs hdfs://10.1.2.3:8020 /etc/hadoop/dfs`,
		Args: cli.Takes(0, 1, "a directory"),
		RunE: func(_ *cobra.Command, args []string) error {
			address, err := fsAddress(fs)
			if err != nil {
				return err
			}
			dir := ""
			if len(args) > 0 {
				dir = args[0]
			} else if dir, err = os.UserConfigDir(); err != nil {
				return fmt.Errorf("name a directory: %w", err)
			} else {
				dir = filepath.Join(dir, "headrace", "dfs-"+strings.ReplaceAll(address, ":", "-"))
			}
			return a.clientConfig(dir, address)
		},
	}
	fsFlag(cmd, &fs)
	return cmd
}

// made begins the files that client-config writes.
const made = "<!-- Written by headrace dfs client-config. -->"

func (a dfsVerbs) clientConfig(dir, address string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, properties := range map[string][][2]string{
		"core-site.xml": {{"fs.defaultFS", "hdfs://" + address}},
		"hdfs-site.xml": {
			{"dfs.replication", "1"},
			// There is no other node to take the place of this one: files that were made for more copies can be appended to all the same.
			{"dfs.client.block.write.replace-datanode-on-failure.best-effort", "true"},
		},
	} {
		path := filepath.Join(dir, name)
		old, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err == nil && !bytes.Contains(old, []byte(made)) {
			return fmt.Errorf("%s is there, and headrace dfs client-config has not written it: name another directory", path)
		}
		if err := linux.WriteFileDurably(path, siteFile(properties), 0o644); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(a.out, dir)
	return err
}

// siteFile is a file of settings as Hadoop has them.
func siteFile(properties [][2]string) []byte {
	var b bytes.Buffer
	b.WriteString("<?xml version=\"1.0\"?>\n" + made + "\n<configuration>\n")
	for _, p := range properties {
		b.WriteString("  <property><name>")
		xml.EscapeText(&b, []byte(p[0]))
		b.WriteString("</name><value>")
		xml.EscapeText(&b, []byte(p[1]))
		b.WriteString("</value></property>\n")
	}
	b.WriteString("</configuration>\n")
	return b.Bytes()
}
