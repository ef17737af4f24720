package pgfairq

import (
	"math/rand"
	"time"
)

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
	return longest/2 + time.Duration(rand.Int63n(int64(longest/2)+1))
}

func (b *backoff) reset() { b.tries = 0 }

// around returns a duration between the factors least and most of it.
func around(d time.Duration, least, most float64) time.Duration {
	return time.Duration(float64(d) * (least + rand.Float64()*(most-least)))
}
