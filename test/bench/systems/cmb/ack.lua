-- KEYS: the queue. ARGV: who, id, id …
-- Only what is still locked by the caller.
local done = 0
for i = 2, #ARGV do
	local lock = KEYS[1] .. ':lock:' .. ARGV[i]
	if redis.call('GET', lock) == ARGV[1] then
		redis.call('DEL', lock)
		redis.call('ZREM', KEYS[1] .. ':taken', ARGV[i])
		redis.call('HDEL', KEYS[1] .. ':payload', ARGV[i])
		done = done + 1
	end
end
return done
