-- One tenant's state. Both keys share one hash tag, hence one slot. Numbers
-- travel and are kept as big-endian doubles.
--   H  hash
--      "keep..."   see below
--      "h"         sum of charges; then in us: when a lease may end next, when
--                  to forget ended ids next, when the keys' expiry was last set
--      "w:<name>"  one window: spent, at (us), rate (per s)
--      "r:<id>"    one reservation, by its first letter:
--                  L held:    cost, used, token, names of its windows
--                  E ran out: used, 0, token, names
--                  S settled
--   Z  sorted set of "r:<id>": held ones by when their lease ends (us), ended
--      ones by when they may be forgotten, plus FAR.
-- In both a member "keep..." stays for ever: so that Z keeps its expiry, and,
-- being longer than 64 bytes, so that neither is stored as a list to be searched.
-- "spent" is what was taken and has not drained yet. It is never negative.
--
-- The parts that scripts share are included as text: a function costs more to
-- make, at each call, than what most of them do. Scores are formatted as integers
-- because Redis formats a double three times slower.
local H, Z, ARGV, MAX = KEYS[1], KEYS[2], ARGV, 9007199254740992
local call, pack, unpick, format = redis.call, struct.pack, struct.unpack, string.format
local t = call('TIME')
local now = t[1] * 1000000 + t[2]
local FAR = 4000000000000000
local keep, id = ARGV[1], ARGV[5]
