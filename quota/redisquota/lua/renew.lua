-- ARGV: keep (ms); cost, used, token, lease (us) in one string; names; "h";
-- "r:<id>"; "w:<name>" of each window; then the rate of each. What is not held,
-- because it ran out or was lost, is held again. Returns 0.
local keep, names, id, n = ARGV[1], ARGV[3], ARGV[5], (#ARGV - 5) / 2
if #ARGV[2] ~= 32 then return { 6, 0, 0 } end
local cost, used, _, lease = unpick('>dddd', ARGV[2])
if not (ok(cost, 1) and ok(used, 0) and ok(lease, 1)) then return { 6, 0, 0 } end
local token, rates = string.sub(ARGV[2], 17, 24), {}
for k = 1, n do
  local rate = unpick('>d', ARGV[5 + n + k])
  if not ok(rate, 0) then return { 6, k, 0 } end
  rates[ARGV[5 + k]] = rate
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
