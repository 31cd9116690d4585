-- State of one tenant. All its keys share one hash tag, hence one slot.
--   H  hash: "c"         sum of all charges
--            "w:<name>"  one window: spent, at (us), rate
--            "r:<id>"    one reservation, by its first letter:
--                        L cost used token names...  held
--                        E used - - names...         ran out
--                        S                           settled
--   L  sorted set: ids that are held, by when their lease ends (us)
--   D  sorted set: ids that have ended, by when they may be forgotten (us)
-- "spent" is what has been taken and has not drained yet. It is never negative.
local H, L, D = KEYS[1], KEYS[2], KEYS[3]
local call = redis.call
local t = call('TIME')
local now = t[1] * 1000000 + t[2]
local num = function(x) return string.format('%.17g', x) end
local remember, expired = 120000000, 3600000000
local window, record, charges = {}, {}, nil -- what this call has read or changed
local out, gone = {}, {}                    -- hash fields to write and to delete

-- A clock set back by up to a minute is waited for, so that no span of time
-- counts twice; one set back further is followed.
local function meter(v)
  local s, a, r = string.match(v or '0 0 0', '^(%S+) (%S+) (%S+)$')
  s, a, r = tonumber(s), tonumber(a), tonumber(r)
  local d = now - a
  if d > 0 then
    s = math.max(s - r * d / 1000000, 0)
    a = now
  elseif d < -60000000 then
    a = now
  end
  return { spent = s, at = a, rate = r }
end

local function win(name)
  local w = window[name]
  if not w then
    w = meter(call('HGET', H, 'w:' .. name))
    window[name] = w
  end
  return w
end

local function add(name, n)
  local w = win(name)
  w.spent = math.max(w.spent + n, 0)
  w.changed = true
end

local function charge(n)
  if n ~= 0 then
    charges = charges or tonumber(call('HGET', H, 'c') or '0')
    charges = charges + n
    out[#out + 1] = 'c'
    out[#out + 1] = num(charges)
  end
end

-- parse returns the letter, the three numbers or tokens and the names.
local function parse(v)
  local f = {}
  for w in string.gmatch(v, '%S+') do f[#f + 1] = w end
  return f
end

local function put(id, v)
  record[id] = v
  out[#out + 1] = 'r:' .. id
  out[#out + 1] = v
end

-- expire ends what nobody renewed in time and returns whether that was all.
local function expire(limit)
  local due = call('ZRANGEBYSCORE', L, '-inf', num(now), 'LIMIT', 0, limit)
  for _, id in ipairs(due) do
    local f = parse(record[id] or call('HGET', H, 'r:' .. id) or 'S')
    if f[1] == 'L' then
      local cost, used = tonumber(f[2]), tonumber(f[3])
      for i = 5, #f do add(f[i], used - cost) end
      charge(used)
      f[1], f[2], f[3], f[4] = 'E', f[3], '-', '-'
      put(id, table.concat(f, ' '))
      call('ZADD', D, num(now + expired), id)
    end
    call('ZREM', L, id)
  end
  return #due < limit
end

-- forget drops a few of the ids that have been remembered long enough.
local function forget()
  for _, id in ipairs(call('ZRANGEBYSCORE', D, '-inf', num(now), 'LIMIT', 0, 8)) do
    gone[#gone + 1] = 'r:' .. id
    call('ZREM', D, id)
  end
end

local function finish(keep)
  for name, w in pairs(window) do
    if w.changed then
      out[#out + 1] = 'w:' .. name
      out[#out + 1] = num(w.spent) .. ' ' .. num(w.at) .. ' ' .. num(w.rate)
    end
  end
  if #gone > 0 then call('HDEL', H, unpack(gone)) end
  if #out > 0 then
    call('HSET', H, unpack(out))
    call('PEXPIRE', H, keep)
    call('PEXPIRE', L, keep)
    call('PEXPIRE', D, keep)
  end
end

local function count(s, least)
  local n = tonumber(s)
  if n and n >= least and n <= 9007199254740992 then return n end
end
