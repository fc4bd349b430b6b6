package redislease

// The scripts of a store. KEYS[1] is the hash of the lease, with the fields version, term and value, and KEYS[2] the set of
// the keys of all leases. A version that is the one to be written is a write that was sent twice: a client that has lost
// its connection sends it again. Terms are compared as text: numbers of Lua are exact to 2^53 only.
const (
	// getScript returns version, term and value of each of KEYS, or an empty array for one that is not there.
	getScript = `
local records = {}
for i, key in ipairs(KEYS) do
	local record = redis.call('HMGET', key, 'version', 'term', 'value')
	records[i] = record[1] and record or {}
end
return records`

	// createScript has the arguments version, term, value and key. It returns 1 if it has written, and otherwise 0.
	createScript = `
local have = redis.call('HGET', KEYS[1], 'version')
if have and have ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[1], 'term', ARGV[2], 'value', ARGV[3])
redis.call('SADD', KEYS[2], ARGV[4])
return 1`

	// updateScript has the version to be replaced as a fifth argument.
	updateScript = `
local have = redis.call('HGET', KEYS[1], 'version')
if have ~= ARGV[5] and have ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[1], 'term', ARGV[2], 'value', ARGV[3])
redis.call('SADD', KEYS[2], ARGV[4])
return 1`

	// keysScript returns the keys of all leases.
	keysScript = `return redis.call('SMEMBERS', KEYS[1])`

	// The script of a guarded write stands between these two. It returns an array: empty if the term is over, otherwise
	// 1 and what the script has returned. The script sees its own keys and arguments.
	guardBegin = `
if redis.call('HGET', KEYS[1], 'term') ~= ARGV[1] then return {} end
local function guarded(KEYS, ARGV)
`
	guardEnd = `
end
return {1, guarded({unpack(KEYS, 2)}, {unpack(ARGV, 2)})}`
)
