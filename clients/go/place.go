package pgfairq

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"sort"
	"strings"
	"sync"
	"time"
)

const (
	isProxySQL    = "SELECT EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'pgfairq_cluster')"
	workerNodeSQL = `SELECT node, connection, ready, extract(epoch FROM ask_after)::float8
		FROM fairq.worker_node_any($1::text[], $2::uuid, $3::int[])`
	isStandbySQL = "SELECT pg_is_in_recovery()"
)

const (
	proxyPatience = 10 * time.Second // for an answer of the proxy
	hostPatience  = 3 * time.Second  // for a host of a node that is tried
	forever       = time.Duration(math.MaxInt64)
)

// A place is where a runner works: the database that it was given, or, if that is a proxy
// of a cluster, one after the other of its nodes.
type place struct {
	node    *node // nil: the database that the runner was given
	db      *sql.DB
	prepare bool // statements may be prepared
	settler *settler

	mu    sync.Mutex
	stmts map[string]*sql.Stmt
}

// What is sent for each task, or each batch.
var prepared = []string{ackSQL, ackResultSQL, ackManySQL, ackResultsSQL}

// prepareAll prepares statements, where that may be. Not when they are first used: that
// takes a connection, and workers may have them all.
func (p *place) prepareAll(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.prepare || p.stmts != nil {
		return nil
	}
	stmts := make(map[string]*sql.Stmt)
	for _, query := range prepared {
		stmt, err := p.db.PrepareContext(ctx, query)
		if err != nil {
			return err
		}
		stmts[query] = stmt
	}
	p.stmts = stmts
	return nil
}

// statement returns a prepared statement, or nil.
func (p *place) statement(query string) *sql.Stmt {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stmts[query]
}

func (p *place) query(ctx context.Context, query string, arguments ...any) (*sql.Rows, error) {
	if stmt := p.statement(query); stmt != nil {
		return stmt.QueryContext(ctx, arguments...)
	}
	return p.db.QueryContext(ctx, query, arguments...)
}

// close ends what the runner has opened, not a pool of the application's.
func (p *place) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, stmt := range p.stmts {
		stmt.Close()
	}
	p.stmts = nil
	if p.node != nil {
		p.db.Close()
	}
}

// A node is what a proxy says of one.
type node struct {
	number     int
	connection string // keywords of libpq
	ready      int64
}

// A guide knows which node is next, and when to ask the proxy.
type guide struct {
	db     *sql.DB
	open   func(connection string) (*sql.DB, error)
	queues *attendance

	mu        sync.Mutex
	known     bool // whether it is a proxy
	isProxy   bool
	pause     time.Duration
	next      time.Time
	worked    bool
	unreached map[int]*unreachedNode
}

type unreachedNode struct {
	until time.Time
	pause backoff
}

func newGuide(db *sql.DB, config RunnerConfig, queues *attendance) *guide {
	return &guide{db: db, open: config.OpenNode, queues: queues,
		pause: 2 * time.Second, unreached: make(map[int]*unreachedNode)}
}

func (g *guide) dueIn() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isProxy {
		return forever
	}
	if left := time.Until(g.next); left > 0 {
		return left
	}
	return 0
}

// ask returns the node to work at, for a runner that has this session at another, or nil if
// the database is no proxy. But for the first time it is that for the queues that are not put
// off.
func (g *guide) ask(ctx context.Context, session string) (*node, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known && !g.isProxy {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, proxyPatience)
	defer cancel()
	first := !g.known
	if first {
		if err := g.db.QueryRowContext(ctx, isProxySQL).Scan(&g.isProxy); err != nil {
			return nil, err
		}
		if g.isProxy && g.open == nil {
			return nil, &hopeless{"0A000",
				"the database is a proxy of a cluster; give RunnerConfig an OpenNode, such as that of OpenNodes"}
		}
		if g.known = true; !g.isProxy {
			return nil, nil
		}
	}
	g.postpone()
	var but []int
	for number, one := range g.unreached {
		if time.Now().Before(one.until) {
			but = append(but, number)
		}
	}
	sort.Ints(but)
	var answer node
	var pause float64
	err := g.queues.callTogether(first, func(queues []string) error {
		return g.db.QueryRowContext(
			ctx, workerNodeSQL, arrayText(queues), optional(session), arrayText(but)).
			Scan(&answer.number, &answer.connection, &answer.ready, &pause)
	})
	if err != nil {
		return nil, err
	}
	g.pause = seconds(pause)
	g.postpone()
	return &answer, nil
}

func (g *guide) postpone() { g.next = time.Now().Add(around(g.pause, 0.75, 1.25)) }

// found notes that so many tasks were claimed. When a node becomes empty it is time to ask
// soon.
func (g *guide) found(at *node, count int) {
	if at == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.unreached, at.number)
	if count == 0 && g.worked {
		if soon := time.Now().Add(around(g.pause/4, 0.5, 1.5)); soon.Before(g.next) {
			g.next = soon
		}
	}
	g.worked = count > 0
}

// lost notes that a node could not be connected to, or was lost. It is not asked for, for
// ever longer times.
func (g *guide) lost(at *node) {
	if at == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	one := g.unreached[at.number]
	if one == nil {
		one = &unreachedNode{pause: backoff{first: 5 * time.Second, longest: time.Minute}}
		g.unreached[at.number] = one
	}
	one.until = time.Now().Add(one.pause.next())
}

// connect opens a pool at a node; of its hosts at that which takes writes.
func (g *guide) connect(ctx context.Context, to *node) (*sql.DB, error) {
	hosts := hostsOf(to.connection)
	last := errors.New("it has no host")
	for _, host := range hosts {
		db, err := g.open(host)
		if err != nil {
			last = err
			continue
		}
		if len(hosts) == 1 {
			return db, nil
		}
		var isStandby bool
		asking, cancel := context.WithTimeout(ctx, hostPatience)
		err = db.QueryRowContext(asking, isStandbySQL).Scan(&isStandby)
		cancel()
		if err == nil && !isStandby {
			return db, nil
		}
		if last = err; err == nil {
			last = errors.New("none of its hosts takes writes")
		}
		db.Close()
	}
	return nil, fmt.Errorf("node %d: %w", to.number, last)
}

// OpenNodes returns an OpenNode for [RunnerConfig]: it opens the nodes of a cluster with
// user, password and TLS settings of a data source name, that of the proxy. Where a node is
// the proxy says: host, port and database.
func OpenNodes(driverName, dataSourceName string) func(connection string) (*sql.DB, error) {
	return func(connection string) (*sql.DB, error) {
		merged, err := dataSourceAt(connection, dataSourceName)
		if err != nil {
			return nil, err
		}
		return sql.Open(driverName, merged)
	}
}

// What is said of a node is where it is. Other settings of libpq are not those of the drivers.
var ofNode = map[string]bool{"host": true, "port": true, "dbname": true, "connect_timeout": true}

func dataSourceAt(connection, own string) (string, error) {
	merged, err := keywordsOf(own)
	if err != nil {
		return "", err
	}
	for word := range merged {
		if ofNode[word] || word == "hostaddr" {
			delete(merged, word)
		}
	}
	theirs, err := keywordsOf(connection)
	if err != nil {
		return "", err
	}
	for word, value := range theirs {
		if ofNode[word] {
			merged[word] = value
		}
	}
	return dataSource(merged), nil
}

var keywordPattern = regexp.MustCompile(`\s*(\w+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|((?:[^\s\\']|\\.)*))`)

// keywordsOf reads a connection string: keywords and values, or a URL.
func keywordsOf(connection string) (map[string]string, error) {
	found := make(map[string]string)
	if strings.HasPrefix(connection, "postgres://") || strings.HasPrefix(connection, "postgresql://") {
		return found, readURL(connection, found)
	}
	rest := strings.TrimSpace(connection)
	for rest != "" {
		at := keywordPattern.FindStringSubmatchIndex(rest)
		if at == nil || at[0] != 0 {
			// What it has may be a password.
			return nil, errors.New("pgfairq: a connection string has something that is no keyword = value")
		}
		value := ""
		for _, group := range []int{2, 3} {
			if at[2*group] >= 0 {
				value = rest[at[2*group]:at[2*group+1]]
			}
		}
		found[rest[at[2]:at[3]]] = unescape.ReplaceAllString(value, "$1")
		rest = strings.TrimSpace(rest[at[1]:])
	}
	return found, nil
}

var unescape = regexp.MustCompile(`(?s)\\(.)`)

func readURL(text string, found map[string]string) error {
	of, err := url.Parse(text)
	if err != nil {
		return errors.New("pgfairq: the data source name is no URL") // it may have a password
	}
	for word, values := range of.Query() {
		found[word] = values[len(values)-1]
	}
	set := func(word, value string) {
		if value != "" {
			found[word] = value
		}
	}
	set("host", of.Hostname())
	set("port", of.Port())
	set("dbname", strings.TrimPrefix(of.Path, "/"))
	if of.User != nil {
		set("user", of.User.Username())
		if password, ok := of.User.Password(); ok {
			found["password"] = password
		}
	}
	return nil
}

var quoteValue = strings.NewReplacer(`\`, `\\`, `'`, `\'`)

func dataSource(words map[string]string) string {
	var parts []string
	for word, value := range words {
		parts = append(parts, fmt.Sprintf("%s='%s'", word, quoteValue.Replace(value)))
	}
	sort.Strings(parts)
	return strings.Join(parts, " ")
}

// hostsOf returns a connection string for each host of one that may name several.
func hostsOf(connection string) []string {
	words, err := keywordsOf(connection)
	if err != nil {
		return nil
	}
	named := words["host"]
	if words["hostaddr"] != "" {
		named = words["hostaddr"]
	}
	delete(words, "hostaddr")
	hosts, ports := strings.Split(named, ","), strings.Split(words["port"], ",")
	var each []string
	for n, host := range hosts {
		if words["host"] = host; host == "" {
			delete(words, "host")
		}
		if len(ports) == len(hosts) {
			words["port"] = ports[n]
		}
		if words["port"] == "" {
			delete(words, "port")
		}
		each = append(each, dataSource(words))
	}
	return each
}
