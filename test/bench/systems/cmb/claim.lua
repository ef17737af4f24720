-- KEYS: the queue. ARGV: how many, who.
-- What is taken leaves the sorted set, is locked for 30 s, and is noted with the time
-- at which the lock ends, so that somebody can give it back.
local time = redis.call('TIME')
local taken = {}
for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, ARGV[1] - 1)) do
	if redis.call('SET', KEYS[1] .. ':lock:' .. id, ARGV[2], 'NX', 'EX', 30) then
		redis.call('ZREM', KEYS[1], id)
		redis.call('ZADD', KEYS[1] .. ':taken', time[1] + 30, id)
		taken[#taken + 1] = id
		taken[#taken + 1] = redis.call('HGET', KEYS[1] .. ':payload', id)
	end
end
return taken
