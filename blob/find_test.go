package blob

import (
	"strings"
	"testing"
)

// TestNoPlace: what cannot be a place is refused when it is named, with what can be.
func TestNoPlace(t *testing.T) {
	for what, where := range map[string]string{
		"relative":                    "dir",
		"another scheme":              "hdfs://nn:8020/dir",
		"without port":                "webhdfs://nn/dir",
		"the root":                    "webhdfs://nn:9870/",
		"a password":                  "webhdfs://u:p@nn:9870/dir",
		"a fragment":                  "webhdfs://nn:9870/dir#x",
		"something else":              "webhdfs://nn:9870/dir?user.name=hdfs",
		"two principals":              "webhdfs://nn:9870/dir?principal=a@R&principal=b@R&keytab=/k",
		"a broken query":              "webhdfs://nn:9870/dir?%zz",
		"a name that is no principal": "webhdfs://nn:9870/dir?principal=a&keytab=/k",
		"no keytab":                   "webhdfs://nn:9870/dir?principal=a@R",
		"user and principal":          "webhdfs://u@nn:9870/dir?principal=a@R&keytab=/k",
		"a keytab that is not there":  "webhdfs://nn:9870/dir?principal=a@R&keytab=/none/keytab",
	} {
		if _, err := Find(where); err == nil || strings.Contains(err.Error(), "refused") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, where := range []string{"webhdfs://nn:9870/dir", "webhdfs://u@nn:9870/dir/below"} {
		if _, err := Find(where); err != nil {
			t.Errorf("%s: %v", where, err)
		}
	}
}
