-- ARGV: keep (ms); cost, used, token, lease (us) in one string; names; "h";
-- "r:<id>"; "w:<name>" of each window; then the rate of each. What is not held,
-- because it ran out or was lost, is held again. Returns 0.
local names, n = ARGV[3], (#ARGV - 5) / 2
if #ARGV[2] ~= 32 then return { 6, 0, 0 } end
local cost, used, _, lease = unpick('>dddd', ARGV[2])
if not (cost >= 1 and cost <= MAX and used >= 0 and used <= MAX and lease >= 1 and lease <= MAX) then return { 6, 0, 0 } end
local token, rates = string.sub(ARGV[2], 17, 24), {}
for k = 1, n do
  local rate = unpick('>d', ARGV[5 + n + k])
  if not (rate >= 0 and rate <= MAX) then return { 6, k, 0 } end
  rates[ARGV[5 + k]] = rate
end
--include read

local state, taken, out = '-', 0, {}
if v[2] then state = string.sub(v[2], 1, 1) end
if state == 'S' then return 0 end
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
    local x = call('HGET', H, w)
    --include drain
    if state == '-' then r = rates[w] end
    s = s + (cost - taken)
    if s < 0 then s = 0 end
    out[#out + 1] = w
    out[#out + 1] = pack('>ddd', s, a, r)
  end
end
local ends = now + lease
call('ZADD', Z, format('%d', ends), id)
call('HSET', H, 'h', pack('>dddd', charged, math.min(due, ends), fade, now), id, 'L' .. pack('>dd', cost, used) .. token .. names, unpack(out))
call('PEXPIRE', H, keep)
call('PEXPIRE', Z, keep)
return 0
