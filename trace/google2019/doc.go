// Package google2019 reads the traces of Google's clusters from 2019 (clusterdata-2019). See docs/traces.md.
package google2019
