-- One tenant's state. Both keys share one hash tag, hence one slot.
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
-- In both a member "keep..." stays for ever: so that Z keeps its expiry, and, being
-- longer than 64 bytes, so that neither is stored as a list to be searched.
-- "spent" is what was taken and has not drained yet. It is never negative.
-- Numbers travel and are kept as big-endian doubles.
local H, Z, ARGV = KEYS[1], KEYS[2], ARGV
local call, pack, unpick = redis.call, struct.pack, struct.unpack
local t = call('TIME')
local now = t[1] * 1000000 + t[2]
local FAR, REMEMBER, EXPIRED = 4000000000000000, 120000000, 3600000000

-- drain brings a window's state to now. A clock set back by up to a minute is
-- waited for, so that no span of time counts twice; one set back further is
-- followed.
local function drain(v)
  if not v then return 0, now, 0 end
  local s, a, r = unpick('>ddd', v)
  local d = now - a
  if d > 0 then
    s = s - r * d / 1000000
    if s < 0 then s = 0 end
    return s, now, r
  end
  if d < -60000000 then return s, now, r end
  return s, a, r
end

-- head returns the parts of "h", made if it is not there.
local function head(v)
  if v then return unpick('>dddd', v) end
  local long = 'keep' .. string.rep('-', 64)
  call('ZADD', Z, '+inf', long)
  call('HSET', H, 'keep', long)
  call('PEXPIRE', H, ARGV[1])
  call('PEXPIRE', Z, ARGV[1])
  return 0, FAR, now + 1000000, now
end

-- tend ends the leases that nobody renewed in time and forgets ended ids whose
-- time is over, a bounded number of each.
local function tend(keep, charged, due, fade, set)
  local moved, out = {}, {}
  local ids = call('ZRANGEBYSCORE', Z, '-inf', now, 'LIMIT', 0, 512)
  for _, id in ipairs(ids) do
    local v = call('HGET', H, id)
    if v and string.sub(v, 1, 1) == 'L' then
      local cost, used = unpick('>dd', v, 2)
      for w in string.gmatch(string.sub(v, 26), '%S+') do moved[w] = (moved[w] or 0) + (used - cost) end
      charged = charged + used
      out[#out + 1] = id
      out[#out + 1] = 'E' .. pack('>dd', used, 0) .. string.sub(v, 18)
    end
    call('ZADD', Z, FAR + now + EXPIRED, id)
  end
  for w, n in pairs(moved) do
    local s, a, r = drain(call('HGET', H, w))
    s = s + n
    if s < 0 then s = 0 end
    out[#out + 1] = w
    out[#out + 1] = pack('>ddd', s, a, r)
  end
  due = now
  if #ids < 512 then
    local first = call('ZRANGE', Z, 0, 0, 'WITHSCORES')
    due = tonumber(first[2] or FAR)
    if due > FAR then due = FAR end
  end
  ids = call('ZRANGEBYSCORE', Z, FAR, FAR + now, 'LIMIT', 0, 1000)
  if #ids > 0 then
    call('HDEL', H, unpack(ids))
    call('ZREM', Z, unpack(ids))
  end
  if #ids < 1000 then fade = now + 1000000 else fade = now end
  call('HSET', H, 'h', pack('>dddd', charged, due, fade, now), unpack(out))
  call('PEXPIRE', H, keep)
  call('PEXPIRE', Z, keep)
end

-- ok reports whether n is a number from least to 2^53; not-a-number is not.
local function ok(n, least) return n >= least and n <= 9007199254740992 end
