package web

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"headrace/dfs"
	"headrace/dfs/gateway"
	"headrace/report"
	front "headrace/serve"
)

// pages are what is served beside WebHDFS, to whoever reaches the port, as by an HDFS without Kerberos: no names of files are in them.
func (s *Server) pages() http.Handler {
	metrics, mux := front.Metrics(append(s.Gateway.Collectors(), s.took)...), http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page)
	for _, path := range []string{"/dfshealth", "/dfshealth.html", "/index.html"} { // where HDFS has its page
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) })
	}
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		s.look(w, func(w http.ResponseWriter) { metrics.ServeHTTP(w, r) })
	})
	mux.HandleFunc("GET /jmx", s.jmx)
	return mux
}

// look has one of those who only watch look at a time. The answer is sent after that: who does not read it keeps nobody else from looking.
func (s *Server) look(w http.ResponseWriter, f func(http.ResponseWriter)) {
	a := &answer{header: w.Header(), status: http.StatusOK}
	if err := s.Gateway.Look(func() { f(a) }); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(a.status)
	w.Write(a.body.Bytes())
}

// answer is one that is collected.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"bytes":    func(n uint64) string { return report.UnitBytes.Format(float64(n)) },
	"duration": report.Duration,
	"state": func(n gateway.NodeStatus) string {
		if n.Leaving {
			return n.State + ", leaving"
		}
		return n.State
	},
}).Parse(pageText))

func (s *Server) page(w http.ResponseWriter, _ *http.Request) {
	s.look(w, func(w http.ResponseWriter) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		st, err := s.Gateway.Status()
		var b strings.Builder
		if rerr := page.Execute(&b, struct {
			*gateway.Status
			Err error
			Now time.Time
		}{st, err, time.Now()}); rerr != nil {
			http.Error(w, rerr.Error(), http.StatusInternalServerError)
			return
		}
		h.Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, b.String())
	})
}

// jmx answers as HDFS's servlet does, with the beans by which tools watch a NameNode.
func (s *Server) jmx(w http.ResponseWriter, r *http.Request) {
	s.look(w, func(w http.ResponseWriter) {
		st, err := s.Gateway.Status()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		query := r.URL.Query().Get("qry")
		beans := []list{}
		for _, b := range beansOf(st, s.Host, s.RPCPort) {
			name := b["name"].(string)
			if prefix, any := strings.CutSuffix(query, "*"); query == "" || name == query || any && strings.HasPrefix(name, prefix) {
				beans = append(beans, b)
			}
		}
		w.Header().Set("Content-Type", "application/json; charset=utf8")
		w.Header().Set("Cache-Control", "no-store")
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.Encode(list{"beans": beans})
	})
}

// nameNode begins the names of a NameNode's beans.
const nameNode = "Hadoop:service=NameNode,name="

// beansOf makes the beans. What only the node that leads knows the others, which are standbys to tools, leave out.
func beansOf(s *gateway.Status, host string, port int) []list {
	state := "standby"
	if s.Leads {
		state = "active"
	}
	beans := []list{{"name": nameNode + "NameNodeStatus", "modelerType": "headrace.dfs", "State": state, "NNRole": "NameNode", "HostAndPort": fmt.Sprintf("%s:%d", host, port), "SecurityEnabled": false}}
	if !s.Leads {
		return beans
	}
	live, dead, leaving := list{}, list{}, list{}
	for _, n := range s.Nodes {
		at := n.DataAddress()
		info := list{"infoAddr": n.WebAddress(), "xferaddr": at, "lastContact": int(n.Silent.Seconds()), "usedSpace": n.Room.Used, "adminState": "In Service", "capacity": n.Room.Capacity,
			"used": n.Room.Used, "remaining": n.Room.Remaining, "numBlocks": n.Room.Blocks, "blockPoolUsed": n.Room.Used, "version": "3.5.0", "location": dfs.Location(n.Member), "volfails": len(n.Room.Failed)}
		switch {
		case n.State != "up":
			dead[at] = list{"lastContact": int(n.Silent.Seconds()), "decommissioned": false, "adminState": "In Service", "xferaddr": at}
		case n.Leaving:
			info["adminState"] = "Decommission In Progress"
			leaving[at], live[at] = info, info
		default:
			live[at] = info
		}
	}
	text := func(v any) string { b, _ := json.Marshal(v); return string(b) } // as HDFS has it: JSON in JSON
	safe, fs := "", "Operational"
	if s.SafeMode {
		safe, fs = "Safe mode is ON.", "safeMode"
	}
	share := func(n uint64) float64 { return 100 * float64(n) / float64(max(1, s.Room.Capacity)) }
	return append(beans, list{"name": nameNode + "NameNodeInfo", "modelerType": "headrace.dfs", "Version": "3.5.0", "SoftwareVersion": "3.5.0", "ClusterId": s.Pool, "BlockPoolId": s.Pool,
		"Used": s.Room.Used, "Free": s.Room.Remaining, "Total": s.Room.Capacity, "BlockPoolUsedSpace": s.Room.Used, "NonDfsUsedSpace": s.Room.Capacity - min(s.Room.Capacity, s.Room.Used+s.Room.Remaining),
		"PercentUsed": share(s.Room.Used), "PercentRemaining": share(s.Room.Remaining), "Safemode": safe, "TotalBlocks": s.Room.Blocks, "NumberOfMissingBlocks": s.Missing,
		"LiveNodes": text(live), "DeadNodes": text(dead), "DecomNodes": text(leaving), "NNStartedTimeInMillis": s.Started.UnixMilli(), "UpgradeFinalized": true},
		list{"name": nameNode + "FSNamesystemState", "modelerType": "headrace.dfs", "FSState": fs, "CapacityTotal": s.Room.Capacity, "CapacityUsed": s.Room.Used, "CapacityRemaining": s.Room.Remaining,
			"BlocksTotal": s.Room.Blocks, "UnderReplicatedBlocks": s.Lacking, "LowRedundancyBlocks": s.Lacking, "NumLiveDataNodes": s.Live, "NumDeadDataNodes": s.Dead,
			"NumDecommissioningDataNodes": s.Leaving, "NumDecomLiveDataNodes": 0, "NumDecomDeadDataNodes": 0, "NumStaleDataNodes": 0, "VolumeFailuresTotal": len(s.Room.Failed)},
		list{"name": nameNode + "FSNamesystem", "modelerType": "headrace.dfs", "tag.HAState": state, "MissingBlocks": s.Missing, "CorruptBlocks": s.Bad, "UnderReplicatedBlocks": s.Lacking,
			"CapacityTotal": s.Room.Capacity, "CapacityUsed": s.Room.Used, "CapacityRemaining": s.Room.Remaining, "BlocksTotal": s.Room.Blocks, "NumFilesUnderConstruction": s.Open,
			"BlocksCached": s.InMemory})
}
