package web

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// FuzzRequest: whatever is asked for is answered, and what is refused is an exception.
func FuzzRequest(f *testing.F) {
	for _, t := range tables {
		for name := range t {
			method, op, _ := strings.Cut(name, " ")
			f.Add(method, "/f", "user.name=root&op="+op, "body")
			f.Add(method, "/d/../ü", "op="+op+"&data=true&aclspec=user::rwx,default:group:x:r--&fsaction=rwx&destination=/x&permission=1777&blocksize=1024", "")
		}
	}
	f.Add("PUT", "/f", "op=SETXATTR&xattr.name=user.x&xattr.value=0sAA==&flag=CREATE,REPLACE&encoding=text", "")
	f.Add("GET", "//.reserved/raw/x%2f", "op=OPEN&offset=9223372036854775807&length=9223372036854775807&data=TRUE", "")
	s := serve(f, nil)
	s.write("/f", strings.Repeat("text", 500))
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		if !slices.Contains([]string{"GET", "PUT", "POST", "DELETE", "HEAD"}, method) {
			t.Skip()
		}
		r := httptest.NewRequest(method, "http://h/", strings.NewReader(body))
		r.URL = &url.URL{Path: prefix + "/" + strings.TrimPrefix(path, "/"), RawQuery: query}
		w := httptest.NewRecorder()
		s.s.ServeHTTP(w, r)
		if w.Code/100 == 2 || w.Code == http.StatusTemporaryRedirect {
			return
		}
		var e struct{ RemoteException remoteException }
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.RemoteException.JavaClassName == "" || w.Code/100 != 4 && w.Code != 500 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
