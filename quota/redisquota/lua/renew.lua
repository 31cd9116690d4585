-- ARGV: keep (ms), token, cost, used, lease (us), names, "h", "r:<id>",
-- "w:<name>" of each window, then the rate of each. What is not held, because it
-- ran out or was lost, is held again. Returns 0.
local keep, token, cost, used, lease, names = ARGV[1], ARGV[2], count(ARGV[3], 1), count(ARGV[4], 0), count(ARGV[5], 1), ARGV[6]
local n, id = (#ARGV - 8) / 2, ARGV[8]
if not (cost and used and lease) then return { 6, 0, 0 } end
local rates = {}
for k = 1, n do
  rates[ARGV[8 + k]] = count(ARGV[8 + n + k], 0)
  if not rates[ARGV[8 + k]] then return { 6, k, 0 } end
end

local v = call('HMGET', H, 'h', id)
local charged, due, fade, set = head(v[1])
if now >= due or now >= fade then
  tend(keep, charged, due, fade, set)
  v = call('HMGET', H, 'h', id)
  charged, due, fade, set = head(v[1])
end

local state, taken = '-', 0
if v[2] then state = string.sub(v[2], 1, 1) end
if state == 'S' then return 0 end
local out = {}
if state ~= '-' then
  local before
  taken, before = unpick('>dd', v[2], 2)
  token, names = string.sub(v[2], 18, 25), string.sub(v[2], 26)
  if state == 'E' then
    before = taken
    charged = charged - taken
  end
  used = math.max(used, before)
end
if cost ~= taken then
  for w in string.gmatch(names, '%S+') do
    local s, a, r = drain(call('HGET', H, w))
    if state == '-' then r = rates[w] end
    s = s + (cost - taken)
    if s < 0 then s = 0 end
    out[#out + 1] = w
    out[#out + 1] = pack('>ddd', s, a, r)
  end
end
local ends = now + lease
if ends < due then due = ends end
call('ZADD', Z, ends, id)
call('HSET', H, 'h', pack('>dddd', charged, due, fade, now), id, 'L' .. pack('>dd', cost, used) .. token .. names, unpack(out))
call('PEXPIRE', H, keep)
call('PEXPIRE', Z, keep)
return 0
