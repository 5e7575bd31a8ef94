package dfs

import (
	"testing"

	"headrace/internal/testkit"
)

func TestMain(m *testing.M) { testkit.M{M: m}.Run() }
