-- ARGV: keep (ms); used and known in one string; names; "h"; "r:<id>"; "w:<name>"
-- of each window; then the rate of each. With known = 1 an unknown id is left
-- alone, else it is charged all of used. Returns 0.
local names, n = ARGV[3], (#ARGV - 5) / 2
if #ARGV[2] ~= 16 then return { 6, 0, 0 } end
local used, known = unpick('>dd', ARGV[2])
if not (used >= 0 and used <= MAX) then return { 6, 0, 0 } end
--include read

local state, taken, out = '-', 0, {}
if v[2] then state = string.sub(v[2], 1, 1) end
if state == 'S' or (state == '-' and known == 1) then return 0 end
if state ~= '-' then
  taken = unpick('>d', v[2], 2)
  names = string.sub(v[2], 26)
end
if names == ARGV[3] then
  for k = 1, n do
    local x = v[2 + k]
    --include drain
    if state == '-' then r = unpick('>d', ARGV[5 + n + k]) end
    s = s + (used - taken)
    if s < 0 then s = 0 end
    out[2 * k - 1], out[2 * k] = ARGV[5 + k], pack('>ddd', s, a, r)
  end
else -- it was reserved under other windows
  for w in string.gmatch(names, '%S+') do
    local x = call('HGET', H, w)
    --include drain
    s = s + (used - taken)
    if s < 0 then s = 0 end
    out[#out + 1] = w
    out[#out + 1] = pack('>ddd', s, a, r)
  end
end
charged = charged + used
if state == 'E' then charged = charged - taken end
call('ZADD', Z, format('%d', FAR + now + 120000000), id)
local old = now - set > 600000000
if old then set = now end
call('HSET', H, 'h', pack('>dddd', charged, due, fade, set), id, 'S', unpack(out))
if old then
  call('PEXPIRE', H, keep)
  call('PEXPIRE', Z, keep)
end
return 0
