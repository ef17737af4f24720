package pgfairq

import (
	"math/rand"
	"os"
	"sync"
	"time"
)

// Seeded, so that processes that were started together differ.
var chance = struct {
	sync.Mutex
	*rand.Rand
}{Rand: rand.New(rand.NewSource(time.Now().UnixNano() ^ int64(os.Getpid())<<40))}

// around returns a duration between the factors least and most of it.
func around(d time.Duration, least, most float64) time.Duration {
	chance.Lock()
	defer chance.Unlock()
	return time.Duration(float64(d) * (least + chance.Float64()*(most-least)))
}

// backoff are pauses that are longer each time, and partly left to chance, so that those
// who failed together do not all come back at the same moment.
type backoff struct {
	first, longest time.Duration
	tries          int
}

func (b *backoff) next() time.Duration {
	longest := b.longest
	if b.tries < 20 && b.first<<b.tries < longest {
		longest = b.first << b.tries
	}
	b.tries++
	return around(longest, 0.5, 1)
}

func (b *backoff) reset() { b.tries = 0 }
