package redislease

// The scripts of a store. KEYS[1] is the hash of the lease, with the fields version, term, and value. KEYS[2] is the set
// of the keys of all leases. If the record already has the version to write, the client has sent the write twice, after
// it lost its connection. Terms are compared as text, because Lua's numbers are exact only up to 2^53.
const (
	// getScript returns version, term, and value of each of KEYS, or an empty array if it is missing.
	getScript = `
local records = {}
for i, key in ipairs(KEYS) do
	local record = redis.call('HMGET', key, 'version', 'term', 'value')
	records[i] = record[1] and record or {}
end
return records`

	// createScript has the arguments version, term, value, and key. It returns 1 if it has written, and 0 otherwise.
	createScript = `
local have = redis.call('HGET', KEYS[1], 'version')
if have and have ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[1], 'term', ARGV[2], 'value', ARGV[3])
redis.call('SADD', KEYS[2], ARGV[4])
return 1`

	// updateScript has a fifth argument, the version to replace.
	updateScript = `
local have = redis.call('HGET', KEYS[1], 'version')
if have ~= ARGV[5] and have ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[1], 'term', ARGV[2], 'value', ARGV[3])
redis.call('SADD', KEYS[2], ARGV[4])
return 1`

	// keysScript returns the keys of all leases.
	keysScript = `return redis.call('SMEMBERS', KEYS[1])`

	// The script of a guarded write is between these two. They return an empty array if the term is over, and otherwise 1
	// and the result of the script: the first one, as EVAL does. The script sees only its own keys and arguments.
	guardBegin = `
if redis.call('HGET', KEYS[1], 'term') ~= ARGV[1] then return {} end
local function guarded(KEYS, ARGV)
`
	guardEnd = `
end
return {1, (guarded({unpack(KEYS, 2)}, {unpack(ARGV, 2)}))}`
)
