package pgfairq_test

// A runner that is given a proxy of a cluster: here a database beside those of its nodes. Seen to
// fail: the proxy is asked only once; a node's session is closed before what it holds has ended.

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"

	"pgfairq"
)

// cluster is a proxy with nodes; each node has a table of what was done there.
type cluster struct {
	testing.TB
	proxy  string
	db     *sql.DB
	nodes  []*sql.DB
	client *pgfairq.Client
}

func newCluster(t *testing.T, count int) *cluster {
	t.Helper()
	if driverName == "" || os.Getenv("FAIRQ_CLUSTER") == "" {
		t.Skip("no driver or no server; test/run has both")
	}
	proxy := fmt.Sprintf("cluster_go_%d_%d", os.Getpid(), databases.Add(1))
	makeDatabase(t, proxy)
	c := &cluster{TB: t, proxy: proxy, db: open(t, dataSource(proxy))}
	execute(t, c.db, "CREATE EXTENSION pgfairq_cluster CASCADE")
	for n := 0; n < count; n++ {
		c.addNode()
	}
	c.client = pgfairq.NewClient(c.db, &pgfairq.ClientConfig{Queue: "emails"})
	if err := c.client.Queue("").Create(background, pgfairq.QueueOpts{}); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cluster) addNode() {
	c.Helper()
	number := len(c.nodes) + 1
	name := fmt.Sprintf("%s_%d", c.proxy, number)
	makeDatabase(c, name)
	db := open(c, dataSource(name))
	execute(c, db, "CREATE EXTENSION pgfairq")
	execute(c, db, "SELECT fairq.set_node($1)", number)
	execute(c, db, "CREATE TABLE sent (task bigint, attempt int, worker int)")
	execute(c, c.db, fmt.Sprintf("SELECT fairq.add_node(%d, 'host=%s dbname=%s')", number, os.Getenv("PGHOST"), name))
	c.nodes = append(c.nodes, db)
}

// enqueue adds tasks in batches of two, each of which goes to a node by chance: with twenty of them none is left out.
func (c *cluster) enqueue(count int) {
	c.Helper()
	for n := 0; n < count; n += 2 {
		var params []pgfairq.EnqueueParams
		for i := n; i < n+2; i++ {
			params = append(params, pgfairq.EnqueueParams{Args: Send{}, Opts: &pgfairq.EnqueueOpts{Group: fmt.Sprint("g", i)}})
		}
		if _, err := c.client.EnqueueMany(background, params); err != nil {
			c.Fatal(err)
		}
	}
}

func (c *cluster) sent(node int) int {
	c.Helper()
	return number(c, c.nodes[node], "SELECT count(*) FROM sent WHERE attempt = 1")
}

func (c *cluster) allSent() int {
	c.Helper()
	sum := 0
	for node := range c.nodes {
		sum += c.sent(node)
	}
	return sum
}

func (c *cluster) runner(workers *pgfairq.Workers, lost *notes) *pgfairq.Runner {
	c.Helper()
	runner, err := pgfairq.NewRunner(c.db, workers, pgfairq.RunnerConfig{
		Queues: []string{"emails"}, Concurrency: 3, Logger: testLogger{c},
		OpenNode: pgfairq.OpenNodes(driverName, dataSource(c.proxy)),
		Hooks: []pgfairq.Hooks{{
			Failed: func(_ context.Context, task *pgfairq.Task, err error) { lost.add(fmt.Sprint("failed ", task, err)) },
			Lost:   func(_ context.Context, task *pgfairq.Task, err error) { lost.add(fmt.Sprint("lost ", task, err)) },
		}},
	})
	if err != nil {
		c.Fatal(err)
	}
	return runner
}

func (c *cluster) start(workers *pgfairq.Workers, lost *notes) {
	c.Helper()
	runner := c.runner(workers, lost)
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(background) }()
	c.Cleanup(func() {
		now, cancel := context.WithCancel(background)
		cancel()
		runner.Stop(now)
		if err := <-ended; err != nil {
			c.Errorf("Run: %v", err)
		}
	})
}

func TestARunnerFollowsACluster(t *testing.T) {
	c := newCluster(t, 2)
	var lost notes
	c.start(sending(write), &lost)
	c.enqueue(40)
	until(t, "all are done", func() bool { return c.allSent() == 40 })
	if c.sent(0) == 0 || c.sent(1) == 0 {
		t.Errorf("%d and %d are done at the nodes", c.sent(0), c.sent(1))
	}
	c.addNode()
	c.enqueue(60)
	until(t, "all are done", func() bool { return c.allSent() == 100 })
	if c.sent(2) == 0 {
		t.Error("nothing is done at the node that was added")
	}
	execute(t, c.db, "SELECT fairq.drain_node(1)")
	c.enqueue(20)
	until(t, "all are done", func() bool { return c.allSent() == 120 })
	until(t, "the drained one is left", func() bool { return number(t, c.nodes[0], "SELECT count(*) FROM fairq.sessions") == 0 })
	equal(t, "lost or failed", lost.String(), "")
}

func TestARunnerLeavesANodeWhileItsWorkersRun(t *testing.T) {
	c := newCluster(t, 2)
	begun, goOn := make(chan struct{}, 2), make(chan struct{})
	var lost notes
	c.start(sending(func(ctx context.Context, job *pgfairq.Job[Send]) error {
		if job.Args.To == "long" {
			begun <- struct{}{}
			<-goOn
		}
		return write(ctx, job)
	}), &lost)
	execute(t, c.nodes[0], `SELECT fairq.enqueue('emails', '{"to": "long"}', name => 'send')`)
	<-begun
	execute(t, c.nodes[1], `SELECT fairq.enqueue('emails', '{}', name => 'send')`)
	until(t, "it works at the other node", func() bool { return c.sent(1) == 1 })
	close(goOn)
	until(t, "both are done", func() bool { return c.allSent() == 2 })
	equal(t, "lost or failed", lost.String(), "")
}

func TestDrainOfACluster(t *testing.T) {
	c := newCluster(t, 2)
	c.enqueue(40)
	var lost notes
	if err := c.runner(sending(write), &lost).Drain(background); err != nil {
		t.Fatal(err)
	}
	equal(t, "sent", c.allSent(), 40)
}

func TestAProxyWantsOpenNode(t *testing.T) {
	c := newCluster(t, 1)
	runner, err := pgfairq.NewRunner(c.db, sending(write), pgfairq.RunnerConfig{Queues: []string{"emails"}, Logger: pgfairq.DiscardLogger})
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.Run(background); err == nil || !strings.Contains(err.Error(), "give RunnerConfig an OpenNode") {
		t.Errorf("Run: %v", err)
	}
}
