// Package dfstest runs headrace dfs start, as processes that end with a test.
package dfstest
