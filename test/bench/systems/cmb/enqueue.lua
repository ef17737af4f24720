-- KEYS: the queue. ARGV: group, payload, group, payload …
-- The score is the priority; tasks of the same one are taken in order of their ids,
-- for which they have to be equally long.
for i = 1, #ARGV, 2 do
	local id = string.format('%015d', redis.call('INCR', KEYS[1] .. ':last'))
	redis.call('ZADD', KEYS[1], 0, id)
	redis.call('HSET', KEYS[1] .. ':payload', id, ARGV[i + 1])
end
return #ARGV / 2
